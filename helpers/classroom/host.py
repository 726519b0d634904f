"""The side of the host: starts workers, hands them notebooks, and takes what they send as hostile data."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from safetensors.numpy import save

from helpers.classroom import frames, sandbox
from helpers.course import BY_NAME
from helpers.judge.answer_book import answer_book
from helpers.judge.dossier import CLASSES

_START_SECONDS = 120  # for a worker to import PyTorch, on a slow disk
_SPARE_SECONDS = 15  # that the host waits beyond a worker's own limits
_STARTER = ThreadPoolExecutor(1)  # a worker dies with the thread that started it, so one thread starts all
_MOST_TEXT = 2_000  # characters of one text that a worker sends


class HostError(Exception):
    """Workers cannot be used on this machine. The message says why."""


@dataclass(frozen=True)
class Settings:
    """How answers are run.

    seed: of the private probes; None for the published ones alone.
    seconds: processor time for one step: a statement, or an exercise on all probes. Three times as much by the clock.
    memory: bytes on top of what Python and PyTorch hold. require_sandbox: rather run nothing than run it without one.
    """

    seed: int | None = None
    seconds: float = 10.0
    memory: int = 2 << 30
    require_sandbox: bool = False

    @property
    def total_seconds(self) -> float:
        """For one submission, by the clock."""
        return 12 * self.seconds


@dataclass
class NotebookRecord:
    """What came of one notebook. Made of plain data, so that it can travel between hosts.

    unreadable: why there is no code. observed: exercise → packed observations, one for each draw of the probes.
    failed: exercise → reason why there are none. skipped: number of a cell → reason why a statement of it was given up.
    stopped, broken: number of a cell → the error that it ended with; why it is not Python. defined: exercise → numbers
    of the cells that define it. unfinished: the reason why the rest was not looked at.
    Reasons: "time", "total time", "memory", "processes", "output", "channel", "died".
    """

    name: str
    unreadable: str = ""
    observed: dict[str, list[bytes]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    stopped: dict[int, str] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    repaired: list[str] = field(default_factory=list)
    defined: dict[str, list[int]] = field(default_factory=dict)
    unfinished: str = ""


@dataclass(frozen=True)
class SubmissionRecord:
    """What came of a submission, and what held its code back on the machine that ran it."""

    notebooks: list[NotebookRecord]
    protection: tuple[str, ...]


def observe_submission(notebooks: Sequence[tuple[str, bytes]], settings: Settings) -> SubmissionRecord:
    """Run and observe all notebooks of a submission, on this machine. This is what an executor is given to do.

    notebooks: name and bytes of each. Raises HostError when no worker can be started, or none in the sandbox that is
    required.
    """
    pool = _pool(settings)
    with pool.worker() as worker:
        end = time.monotonic() + settings.total_seconds
        return SubmissionRecord(
            [worker.observe(name, data, end) for name, data in notebooks], pool.protection.sentences
        )


class Worker:
    """One worker process. It is started at the first notebook, and again whenever it was lost."""

    def __init__(self, settings: Settings, sandboxed: bool):
        self._settings, self._sandboxed = settings, sandboxed
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = frames.Reader()

    def observe(self, name: str, data: bytes, end: float) -> NotebookRecord:
        """Run a notebook. A step that breaks a limit is left out of the next try: the others keep their points.

        end: when to stop, by `time.monotonic`
        """
        record = NotebookRecord(name)
        skipped: set[str] = set()
        while True:
            left = end - time.monotonic()
            ended, step = self._run_once(record, data, skipped, left) if left > 0 else ("total time", "")
            if ended == "finished" or record.unreadable:
                return record
            if ended == "total time" or not step or step in skipped:
                record.unfinished = ended
                return record
            skipped.add(step)
            _blame(record, step, ended)

    def _run_once(self, record: NotebookRecord, data: bytes, skipped: set[str], left: float) -> tuple[str, str]:
        """One try. Returns how it ended, and the last step that was begun."""
        job = {
            "seconds": self._settings.seconds,
            "total_seconds": left,
            "memory": self._settings.memory,
            "skipped": sorted(skipped),
            "judged": sorted(record.observed),
        }
        step = ""
        try:
            self._send(job, data)
            for header, payload in self._messages(left + _SPARE_SECONDS):
                if "ended" in header:
                    return str(header["ended"]), step
                step = _text(header.get("step")) or step
                _take(record, header, payload, step, 1 if self._settings.seed is None else 2)
        except TimeoutError:
            self.close()
            return "total time", step
        except (OSError, EOFError):
            self.close()
            return "died", step
        except (frames.BadFrame, _Nonsense):
            self.close()
            return "channel", step
        raise AssertionError("a worker's messages end with how it ended")

    # -- the process

    def _start(self) -> None:
        self._process = _STARTER.submit(
            subprocess.Popen,
            sandbox.worker_command(self._sandboxed),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=sandbox.worker_environment(self._sandboxed),
            cwd="/",
            bufsize=0,
            start_new_session=True,
        ).result()
        self._reader = frames.Reader()
        try:
            self._write(frames.pack({"seed": self._settings.seed}, _public_keys()))
            header, _ = next(self._messages(_START_SECONDS))
        except (OSError, EOFError, frames.BadFrame, TimeoutError) as error:
            os.killpg(self._process.pid, signal.SIGKILL)
            said = (self._process.communicate()[1] or b"").decode("utf-8", "replace").strip()
            self.close()
            raise HostError(f"A worker could not be started: {said[-600:] or error!r}") from error
        assert self._process.stderr is not None
        threading.Thread(target=_drain, args=(self._process.stderr,), daemon=True).start()
        if not header.get("ready"):
            raise HostError("A worker did not say that it is ready.")

    def _send(self, job: dict[str, Any], data: bytes) -> None:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        self._write(frames.pack(job, data))

    def _write(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        frames.write(self._process.stdin.fileno(), data)

    def _messages(self, seconds: float) -> Iterator[frames.Frame]:
        """The messages as they come. Raises TimeoutError, EOFError when the worker is gone, BadFrame."""
        assert self._process is not None
        assert self._process.stdout is not None
        channel = self._process.stdout.fileno()
        end = time.monotonic() + seconds
        while True:
            readable, _, _ = select.select([channel], [], [], max(end - time.monotonic(), 0))
            if not readable:
                raise TimeoutError
            data = os.read(channel, 1 << 20)
            if not data:
                raise EOFError
            yield from self._reader.feed(data)

    def close(self) -> None:
        """End the worker and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the worker and a supervisor; what these started dies with them
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _drain(stream: Any) -> None:
    """Keep a worker from waiting for somebody to read its complaints."""
    with contextlib.suppress(OSError, ValueError):
        while stream.read(1 << 16):
            pass


@lru_cache(maxsize=1)
def _public_keys() -> bytes:
    """The public outputs by which `observe` recognises an unusual layout."""
    book = answer_book()
    return save({f"{name}|{case}": array for name in CLASSES for case, array in book.key(name).items()})


# ------------------------------------------------------------------------------------- what a worker says


class _Nonsense(Exception):
    """A message that no worker of ours would send."""


def _take(record: NotebookRecord, header: dict[str, Any], payload: bytes, step: str, draws: int) -> None:
    """Write one message into the record. step: the last one that was begun. Raises _Nonsense."""
    try:
        if "unreadable" in header:
            record.unreadable = _text(header["unreadable"])
        for field_name in ("broken", "stopped"):
            if field_name in header:
                told = {int(number): _text(message) for number, message in header[field_name].items()}
                setattr(record, field_name, told)
        if "repaired" in header:
            record.repaired = [_text(sentence) for sentence in header["repaired"]][:100]
        if "defined" in header:
            record.defined = {
                name: [int(number) for number in numbers]
                for name, numbers in header["defined"].items()
                if name in BY_NAME
            }
        if "observed" in header:
            if step != f"exercise {header['observed']}" or header["observed"] in record.observed:
                raise _Nonsense  # each is sent once, in its own step
            _take_observations(record, header, payload, draws)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise _Nonsense from error


def _take_observations(record: NotebookRecord, header: dict[str, Any], payload: bytes, draws: int) -> None:
    name, sizes = header["observed"], [int(size) for size in header["sizes"]]
    if name not in BY_NAME or min(sizes) < 0 or len(sizes) != draws or sum(sizes) != len(payload):
        raise _Nonsense
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    record.observed[name] = [payload[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def _text(value: Any) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _blame(record: NotebookRecord, step: str, reason: str) -> None:
    words = step.split()
    if words[0] == "exercise":
        record.failed[words[1]] = reason
    elif words[0] == "cell":
        record.skipped[int(words[1])] = reason
    else:
        record.unreadable = f"reading it was stopped ({reason})"


# --------------------------------------------------------------------------------------------- the pool


class _Pool:
    """Workers that wait for the next submission: as many as were ever needed at once."""

    def __init__(self, settings: Settings):
        self.protection = sandbox.protection()
        if settings.require_sandbox and not self.protection.sandboxed:
            raise HostError(self.protection.sentences[0])
        self._settings = settings
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all: list[Worker] = []

    @contextlib.contextmanager
    def worker(self) -> Iterator[Worker]:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = Worker(self._settings, self.protection.sandboxed)
            self._all.append(worker)
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        for worker in self._all:
            worker.close()


_POOLS: dict[Settings, _Pool] = {}
_POOLS_LOCK = threading.Lock()


def _pool(settings: Settings) -> _Pool:
    with _POOLS_LOCK:
        if settings not in _POOLS:
            _POOLS[settings] = _Pool(settings)
        return _POOLS[settings]


@atexit.register
def close_workers() -> None:
    """End every worker of this process."""
    with _POOLS_LOCK:
        for pool in _POOLS.values():
            pool.close()
        _POOLS.clear()
