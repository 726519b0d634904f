"""Runs one notebook's code and observes its answers, in a process that holds nothing worth taking.

It is a child of the worker. Everything it finds out leaves as a message; of anything after this process was killed,
the messages sent before remain. So each step is announced before it begins.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import inspect
import io
import linecache
import math
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from helpers.classroom import frames, stand_ins
from helpers.classroom.handed_in_code import Cell, HandedInCode, code_of
from helpers.course import EXERCISES
from helpers.judge import guard
from helpers.judge.observe import observe_each
from helpers.judge.probes import Draw
from helpers.notebook import NotebookError

_NAMES = tuple(exercise.name for exercise in EXERCISES)
Keys = dict[str, dict[str, np.ndarray]]  # exercise → the public outputs by which a layout is recognised
Send = Callable[..., None]  # header fields, payload=bytes


class Channel:
    """The way out for messages. Each carries a secret, so that noise on the channel is told from a message."""

    def __init__(self, descriptor: int, secret: str):
        self._descriptor, self._secret = descriptor, secret
        self._write, self._pack = frames.write, frames.pack  # kept here: a cell may replace them

    def send(self, payload: bytes = b"", **header: Any) -> None:
        self._write(self._descriptor, self._pack(header | {"secret": self._secret}, payload))


def run_notebook(
    data: bytes, send: Send, keys: Keys, draws: Sequence[Draw], skipped: set[str], judged: set[str]
) -> None:
    """Run the statements of a notebook one by one, then observe every answer that is there.

    skipped: the steps at which an earlier run of this notebook was stopped. judged: exercises that were observed then.
    """
    send(step="reading")
    try:
        code = code_of(data)
    except NotebookError as error:
        send(unreadable=str(error))
        return
    send(
        broken={str(number): message for number, message in code.broken},
        repaired=list(code.repaired),
        defined={name: [cell.number for cell in code.cells if name in cell.defines] for name in _NAMES},
    )
    pristine = guard.snapshot()
    notebook = _Notebook(send, skipped)
    modules = dict(sys.modules)
    notebook.run(code)
    for name in _NAMES:
        step = f"exercise {name}"
        if name in judged or step in skipped or name not in notebook.answers:
            continue
        send(step=step)
        guard.put_back(pristine)
        sys.modules.update(modules)
        for answer in reversed(notebook.answers[name]):
            observations = observe_each(answer, name, keys.get(name), draws)
            if observations[0].facts.get("trouble") != "blank":
                break  # a blank that stands below an answer (`reset` puts one there) does not count
        _end_children()
        packed = [observation.to_bytes() for observation in observations]
        send(payload=b"".join(packed), observed=name, sizes=[len(one) for one in packed])
    send(finished=True)


class _Notebook:
    """The names of a running notebook, and what its statements did to them."""

    def __init__(self, send: Send, skipped: set[str]):
        self._send = send
        self._skipped = skipped
        self.answers: dict[str, list[Any]] = {}  # exercise → all that ever had its name, in order
        self._module = types.ModuleType("__main__")
        self._names = vars(self._module)
        sys.modules["__main__"] = self._module
        stand_ins.install("helpers", "solutions")
        # What every notebook of the course imports at its top: a lost import cell costs nothing.
        self._names |= {"math": math, "torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        vars(builtins)["get_ipython"] = vars(builtins)["display"] = stand_ins.Anything()

    def run(self, code: HandedInCode) -> None:
        """Run all cells in order; then, once more, what failed because a name came only later."""
        troubles: dict[int, str] = {}
        again: list[tuple[Cell, int]] = []
        for cell in code.cells:
            linecache.cache[_file(cell)] = (len(cell.source), None, cell.source.splitlines(keepends=True), _file(cell))
            for number in range(len(cell.statements)):
                error = self._run_step(cell, number)
                if error is not None:
                    troubles.setdefault(cell.number, _told(error))
                    if isinstance(error, NameError):
                        again.append((cell, number))
        for cell, number in again:
            self._run_step(cell, number)
        self._send(stopped={str(number): told for number, told in troubles.items()})

    def _run_step(self, cell: Cell, number: int) -> BaseException | None:
        step = f"cell {cell.number} statement {number}"
        if step in self._skipped:
            return None
        self._send(step=step)
        error = _run(cell.statements[number].node, cell, self._names)
        _end_children()
        if isinstance(error, MemoryError):  # what it took is still taken: begin again, without this statement
            self._send(gave_up="memory")
        for name in _NAMES:
            if name in self._names:
                known = self.answers.setdefault(name, [])
                if not known or known[-1] is not self._names[name]:
                    known.append(self._names[name])
        return error


def _run(node: ast.stmt, cell: Cell, names: dict[str, Any]) -> BaseException | None:
    """Run one statement, and catch whatever comes out of it."""
    try:
        with (
            contextlib.redirect_stdout(_Nowhere()),
            contextlib.redirect_stderr(_Nowhere()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            code = compile(ast.Module([node], []), _file(cell), "exec", cell.flags, dont_inherit=True)
            result = eval(code, names)
            if inspect.iscoroutine(result):  # the statement awaits something
                asyncio.run(result)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: the other statements still count
        return error
    return None


def _end_children() -> None:
    """End the processes that a step has left behind, so that a later step does not pay for them.

    Only where this is process 1: its children are all there are.
    """
    if os.getpid() != 1:
        return
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ChildProcessError, ProcessLookupError):
        pass  # there is none, or none any more


class _Nowhere(io.TextIOBase):
    """Takes any amount of text and keeps none of it."""

    def write(self, text: str) -> int:
        return len(text)


def _file(cell: Cell) -> str:
    return f"<cell {cell.number}>"


def _told(error: BaseException) -> str:
    """An error in one line. Its own words may fail, or be endless."""
    raised = guard.Raised.of(error)
    first = raised.message.strip().split("\n")[0][:200]
    return f"{raised.type}: {first}".rstrip(".: ")
