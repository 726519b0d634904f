"""The worker: holds PyTorch ready and forks one process for each notebook. It never reads a notebook itself.

    host ──job──▶ worker ──fork──▶ supervisor ──fork──▶ cell runner (own namespaces, no rights, limits)
      ◀────────────── messages ──────┘  ◀──── messages ───┘

The supervisor lives for one notebook, relays what the cell runner sends, and ends it at the first limit. Nothing of a
submission is left in the worker's memory, which every later cell runner inherits.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from safetensors.numpy import load

from helpers.classroom import cell_runner, frames, isolation
from helpers.judge.observe import observe_each
from helpers.judge.probes import PUBLISHED, Draw

_WATCH = 0.1  # seconds between two looks at memory, processes and time
_WALL_PER_CPU = 3  # a step may take this many times its limit when it sleeps, or when the machine is busy


class _Stopped(Exception):
    """The supervisor ends the cell runner. Its text is one of the reasons in `host.REASONS`."""


def main() -> None:
    """Read a greeting, then one job after the other, until the host closes the channel."""
    isolation.die_with_parent()
    host = _Host()
    torch.set_num_threads(1)
    isolation.adopt_orphans()
    header, size = host.read_header()
    keys = _keys(host.read(size))
    draws = [PUBLISHED] if header["seed"] is None else [PUBLISHED, Draw(header["seed"])]
    _warm_up(keys, draws)
    gc.collect()
    gc.freeze()  # what is there now stays shared with every child
    namespaces = _namespaces_work()
    host.send(ready=True, namespaces=namespaces)
    while True:
        try:
            job, size = host.read_header()
        except EOFError:
            return
        supervisor = os.fork()
        if supervisor == 0:
            _supervise(job, host, size, keys, draws, namespaces)
            os._exit(0)
        _, status = os.waitpid(supervisor, 0)
        _end_descendants()
        if status != 0:
            host.send(ended="died")


def _keys(payload: bytes) -> cell_runner.Keys:
    keys: cell_runner.Keys = {}
    for name, array in load(payload).items():
        exercise, case = name.split("|", 1)
        keys.setdefault(exercise, {})[case] = array
    return keys


def _warm_up(keys: cell_runner.Keys, draws: list[Draw]) -> None:
    """Let PyTorch and the probes do once what every child would do first."""
    for exercise in keys:
        observe_each(torch.nn.Identity, exercise, keys[exercise], draws)
        observe_each(_Copies, exercise, keys[exercise], draws)


class _Copies(torch.nn.Module):
    """Takes what an attention layer takes, and gives its first input back."""

    def __init__(self, width: int, heads: float = 1):
        super().__init__()
        self.proj = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return self.proj(x)


def _namespaces_work() -> bool:
    """Try it in a child."""
    child = os.fork()
    if child == 0:
        os._exit(0 if isolation.own_namespaces() else 1)
    return os.waitpid(child, 0)[1] == 0


# ------------------------------------------------------------------------------------------------ one notebook


def _supervise(
    job: dict[str, Any],
    host: _Host,
    size: int,
    keys: cell_runner.Keys,
    draws: list[Draw],
    namespaces: bool,
) -> None:
    """Run one notebook in a child, relay its messages, end it at a limit."""
    isolation.die_with_parent()
    data = host.read(size)
    isolated = namespaces and isolation.own_namespaces()
    folder = None if isolated and not _python_is_in(tempfile.gettempdir()) else tempfile.mkdtemp(prefix="submission-")
    receiving, sending = os.pipe()
    secret = secrets.token_hex(8)
    runner = os.fork()
    if runner == 0:
        os.close(receiving)
        _become_cell_runner(job, data, cell_runner.Channel(sending, secret), sending, keys, draws, folder, isolated)
        os._exit(0)
    os.close(sending)
    del data
    try:
        ended = _relay(job, runner, receiving, secret, host)
    except _Stopped as stop:
        ended = str(stop)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(runner, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(runner, 0)
        _end_descendants()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    host.send(ended=ended)


def _become_cell_runner(
    job: dict[str, Any],
    data: bytes,
    channel: cell_runner.Channel,
    descriptor: int,
    keys: cell_runner.Keys,
    draws: list[Draw],
    folder: str | None,
    isolated: bool,
) -> None:
    os.setsid()
    isolation.close_all_but(descriptor)
    isolation.limit_memory_and_files(job["memory"], processes=isolated)
    folder = folder or tempfile.gettempdir()
    if isolated:
        isolation.hide_folders(folder, "/proc", "/dev/shm")
        isolation.drop_rights()
    isolation.die_with_parent()
    os.chdir(folder)
    os.environ |= {"HOME": folder, "TMPDIR": folder}
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the life of this process
    cell_runner.run_notebook(data, channel.send, keys, draws, set(job["skipped"]), set(job["judged"]))


def _python_is_in(folder: str) -> bool:
    """Would Python lose modules that it has not imported yet, if this folder were hidden?"""
    return any(Path(entry).is_relative_to(folder) for entry in (sys.prefix, sys.base_prefix, *sys.path) if entry)


def _relay(job: dict[str, Any], runner: int, receiving: int, secret: str, host: _Host) -> str:
    """Pass messages on until the cell runner has finished or is gone. Raises _Stopped at a limit."""
    reader = frames.Reader()
    watch = _Watch(job, runner)
    while True:
        readable, _, _ = select.select([receiving], [], [], _WATCH)
        if readable:
            data = os.read(receiving, 1 << 20)
            if not data:
                return "died"
            try:
                for header, payload in reader.feed(data):
                    if header.pop("secret", None) != secret:
                        raise _Stopped("channel")
                    if "finished" in header:
                        return "finished"
                    if header.get("gave_up") == "memory":
                        return "memory"
                    if "step" in header:
                        watch.next_step()
                    watch.count(len(payload))
                    host.send(payload, **header)
            except frames.BadFrame:
                raise _Stopped("channel") from None
        watch.look()


class _Watch:
    """Looks at the clocks, the memory and the number of processes of a cell runner. Raises _Stopped."""

    def __init__(self, job: dict[str, Any], runner: int):
        self._job = job
        self._process = psutil.Process(runner)
        self._started = self._looked = time.monotonic()
        self._sent = 0
        self._base = psutil.Process().memory_info().rss
        self.next_step()

    def next_step(self) -> None:
        self._step_started = time.monotonic()
        self._cpu_at_step: float | None = None

    def count(self, sent: int) -> None:
        self._sent += sent
        if self._sent > frames.MOST_PAYLOAD:
            raise _Stopped("output")

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _WATCH:
            return
        self._looked = now
        if now - self._started > self._job["total_seconds"]:
            raise _Stopped("total time")
        try:
            family = [self._process, *self._process.children(recursive=True)]
            usage = [process.as_dict(["cpu_times", "memory_info"]) for process in family]
        except psutil.Error:
            return  # it is ending: the channel will say so
        if len(family) > isolation.MOST_PROCESSES:
            raise _Stopped("processes")
        memory = sum(max(one["memory_info"].rss - self._base, 0) for one in usage if one["memory_info"])
        if memory > self._job["memory"]:
            raise _Stopped("memory")
        cpu = sum(one["cpu_times"].user + one["cpu_times"].system for one in usage if one["cpu_times"])
        if self._cpu_at_step is None:
            self._cpu_at_step = cpu
        seconds = self._job["seconds"]
        if cpu - self._cpu_at_step > seconds or now - self._step_started > _WALL_PER_CPU * seconds:
            raise _Stopped("time")


def _end_descendants() -> None:
    """Kill what is left of the processes that an answer started, however they hid."""
    me = psutil.Process()
    while children := me.children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        for child in me.children():
            with contextlib.suppress(psutil.Error):
                child.wait(timeout=5)


# ------------------------------------------------------------------------------------------------ the host's channel


class _Host:
    """Standard input and output, as channels for messages. Not a byte more is read than asked for."""

    def __init__(self) -> None:
        self._outbox = os.dup(1)
        os.dup2(2, 1)  # whatever else prints must not end up between the messages

    def read(self, size: int) -> bytes:
        """Raises EOFError when the host has closed the channel."""
        data = bytearray()
        while len(data) < size:
            piece = os.read(0, min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def read_header(self) -> tuple[dict[str, Any], int]:
        """The header of the next message, and the size of the bytes that follow it. Raises EOFError at the end."""
        header_size, size = (int.from_bytes(self.read(8), "little") for _ in range(2))
        return json.loads(self.read(header_size)), size

    def send(self, payload: bytes = b"", **header: Any) -> None:
        frames.write(self._outbox, frames.pack(header, payload))


if __name__ == "__main__":
    main()
