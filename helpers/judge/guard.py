"""Runs a learner's code so that nothing it does reaches the rest of the session."""

from __future__ import annotations

import builtins
import contextlib
import io
import linecache
import math
import random
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

_OURS = (
    str(Path(__file__).resolve().parent),
    sysconfig.get_paths()["purelib"],
    sysconfig.get_paths()["stdlib"],
)
_PATCHABLE = (
    *(builtins, math, np, torch, torch.nn, torch.nn.functional, torch.nn.init),
    *(torch.Tensor, torch.nn.Module, torch.nn.Linear, torch.nn.Dropout),
)  # what an answer might replace, and what is put back after it
_PRINT_LIMIT = 20_000  # characters kept of what an answer prints


@dataclass(frozen=True)
class Raised:
    """An exception in the learner's code, without its traceback.

    type: the class name. where: the learner's function. line: their last line of code, with its number.
    """

    type: str
    message: str
    where: str
    line: str
    number: int

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        where, line, number = _last_own_line(error.__traceback__)
        try:
            message = str(error)[:600]
        except Exception:  # an exception that cannot tell what it is
            message = ""
        return cls(type(error).__name__, message, where, line, number)


def _last_own_line(traceback: TracebackType | None) -> tuple[str, str, int]:
    """The innermost frame that is neither ours nor a library's."""
    found = ("", "", 0)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            found = (code.co_name, line, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


class Interrupted(Exception):
    """The learner stopped the check from the keyboard."""


def attempt(call: Callable[[], Any]) -> tuple[Any, Raised | None]:
    """Call, and catch whatever comes out, `SystemExit` included. Raises Interrupted on a keyboard interrupt."""
    try:
        return call(), None
    except KeyboardInterrupt as error:
        raise Interrupted(Raised.of(error)) from None
    except BaseException as error:
        return None, Raised.of(error)


class _Limited(io.StringIO):
    """Keeps the first characters that are printed and forgets the rest; cannot be closed."""

    def close(self) -> None:
        pass

    def write(self, text: str) -> int:
        room = _PRINT_LIMIT - self.tell()
        super().write(text[: max(room, 0)])
        return len(text)


@contextlib.contextmanager
def guarded() -> Iterator[io.StringIO]:
    """Silence prints and warnings; put back the random state, the defaults of torch and patched functions."""
    printed = _Limited()
    before = snapshot()
    dtype, device, threads = torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()
    python_random, numpy_random = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        _set_defaults(torch.float32, torch.device("cpu"), 1)  # small tensors: more threads only wait for each other
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
            torch.random.fork_rng(devices=[]),
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.enable_grad(),
        ):
            warnings.simplefilter("ignore")
            yield printed
    finally:
        put_back(before)
        _set_defaults(dtype, device, threads)
        random.setstate(python_random)
        np.random.set_state(numpy_random)  # noqa: NPY002


def _set_defaults(dtype: torch.dtype, device: torch.device, threads: int) -> None:
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)
    if torch.get_default_device() != device:
        torch.set_default_device(device)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def snapshot() -> list[dict[str, Any]]:
    """What an answer might replace, as it is now."""
    return [dict(vars(owner)) for owner in _PATCHABLE]


def put_back(before: list[dict[str, Any]]) -> None:
    """Undo what was replaced since the snapshot."""
    for owner, names in zip(_PATCHABLE, before, strict=True):
        _restore(owner, names)


def _restore(owner: Any, before: dict[str, Any]) -> None:
    after = vars(owner)
    if len(after) == len(before) and all(after.get(name) is value for name, value in before.items()):
        return
    for name, value in before.items():
        if after.get(name) is not value:
            setattr(owner, name, value)
    for name in [name for name in after if name not in before]:
        if callable(after[name]) and (isinstance(owner, type) or not name.startswith("_")):
            delattr(owner, name)


class Spy(TorchFunctionMode):
    """Notes the names of the torch functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.add(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


def does_nothing(function: Any) -> bool:
    """True for a body that holds only a docstring, `...` or `pass`."""
    import dis

    code = getattr(function, "__code__", None)
    if code is None:
        return False
    idle = {
        "RESUME",
        "LOAD_CONST",
        "RETURN_VALUE",
        "RETURN_CONST",
        "NOP",
        "CACHE",
        "COPY_FREE_VARS",
        "MAKE_CELL",
    }
    steps = list(dis.get_instructions(code))
    returned = [step.argval for step in steps if "CONST" in step.opname]
    return all(step.opname in idle for step in steps) and all(value is None or value is ... for value in returned)
