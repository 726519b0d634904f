"""What holds a learner's code back on this machine, and how a worker is started inside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from helpers import paths
from helpers.judge.answer_book import FOLDER as ANSWER_BOOK

_INSIDE = "/course"  # where the course's checks lie inside the sandbox
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
_ALWAYS = (
    "Time per exercise, memory, number of processes, open files and the size of what an answer sends are limited. "
    "Answers are compared in another process, which never runs them."
)
_WITH = (
    "bubblewrap: the code of a submission has no network, cannot read other submissions, the solutions or the answer "
    "book, and writes into a folder in memory that is gone afterwards."
)
_WITHOUT = (
    "There is no sandbox: the code of a submission can use the network and can read, change and delete files "
    "with your rights. {why}"
)
_NOT_INSTALLED = "bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)."
_NOT_WORKING = "bubblewrap is installed and does not work here: {error}"
_NOT_LINUX = "The sandbox needs Linux."


@dataclass(frozen=True)
class Protection:
    """sandboxed: is there a sandbox? sentences: what holds, and what does not, for people."""

    sandboxed: bool
    sentences: tuple[str, ...]


def protection() -> Protection:
    """Try out what this machine has."""
    why = _why_not()
    return Protection(not why, (_WITHOUT.format(why=why) if why else _WITH, _ALWAYS))


def _why_not() -> str:
    if not sys.platform.startswith("linux"):
        return _NOT_LINUX
    if shutil.which("bwrap") is None:
        return _NOT_INSTALLED
    tried = subprocess.run(
        [*_bubblewrap(), _inside(sys.executable), "-c", ""], capture_output=True, text=True, check=False
    )
    return _NOT_WORKING.format(error=tried.stderr.strip().split("\n")[-1][:200]) if tried.returncode else ""


def worker_command(sandboxed: bool) -> list[str]:
    """The command line of a worker."""
    module = ["-m", "helpers.classroom.worker"]
    return [*_bubblewrap(), _inside(sys.executable), *module] if sandboxed else [sys.executable, *module]


def worker_environment(sandboxed: bool) -> dict[str, str]:
    """The few variables that a worker gets: nothing of the teacher's environment."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": _INSIDE if sandboxed else str(paths.ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": "/tmp",
        "CUDA_VISIBLE_DEVICES": "",
        "ATTENTION_PROGRESS": "off",
    }


def _bubblewrap() -> list[str]:
    """bwrap(1) with Python and the course's checks to read, and nothing else."""
    command = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    command += ["--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for folder in (*_SYSTEM, *_of_python()):
        command += ["--ro-bind-try", folder, _inside(folder)]
    helpers = f"{_INSIDE}/helpers"
    command += ["--ro-bind", str(paths.ROOT / "helpers"), helpers]
    command += ["--tmpfs", f"{helpers}/{ANSWER_BOOK.relative_to(paths.ROOT / 'helpers')}"]
    for packages in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for name in ("solutions", "helpers"):  # an installed course: its copies are not for learners' code
            if Path(packages, name).is_dir():
                command += ["--tmpfs", _inside(f"{packages}/{name}")]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]  # nothing that one submission writes is there for the next
    return [*command, "--chdir", "/tmp", "--"]


def _inside(path: str) -> str:
    """Where a path of this Python lies in the sandbox: not below /tmp, which every submission finds empty."""
    return f"/python{path}" if path.startswith("/tmp/") else path


def _of_python() -> list[str]:
    """The folders of this Python and its packages, outer ones first."""
    packages = [entry for entry in sys.path if "-packages" in entry and os.path.isdir(entry)]
    found = {str(Path(folder).absolute()) for folder in (sys.base_prefix, sys.prefix, *packages)}
    found |= {str(Path(sys.executable).resolve().parent.parent)}
    return [folder for folder in sorted(found) if not folder.startswith("/usr/") and folder != "/usr"]
