"""Shuts a process that is about to run a learner's code in: namespaces, limits, closed channels. Linux; some on macOS.

The calls are those of namespaces(7), user_namespaces(7), mount_namespaces(7), capabilities(7) and getrlimit(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

MOST_PROCESSES = 24  # that an answer may start; threads of PyTorch included where the system counts them
_MOST_FILE = 32 << 20  # bytes in one file
_MOST_OPEN = 128  # files and sockets
_FOLDER_SIZE = b"size=64m,mode=0700"  # of the throw-away folder, which lies in memory
# From linux/sched.h, linux/prctl.h and linux/capability.h
_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PIDS = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_SIGKILL = 9

_libc = ctypes.CDLL(None, use_errno=True)


def own_namespaces() -> bool:
    """Give the children of this process their own process numbers and shared memory. False where it is not allowed.

    The first child becomes process 1 there: when it ends, the kernel ends all that it started.
    """
    if not sys.platform.startswith("linux"):
        return False
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USER | _NEW_PIDS | _NEW_IPC) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError:
        return False
    return True


def hide_folders(*folders: str) -> None:
    """Put an empty folder in memory over each of these, for this process and its children. Raises OSError."""
    if _libc.unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace")
    for folder in folders:
        if Path(folder).is_dir() and _libc.mount(b"none", folder.encode(), b"tmpfs", 0, _FOLDER_SIZE) != 0:
            raise OSError(ctypes.get_errno(), f"{folder} cannot be hidden")


def drop_rights() -> None:
    """Give up every capability, for good. Linux only; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _libc.capset(header, none)


def die_with_parent() -> None:
    """Let the kernel end this process when its parent ends."""
    if sys.platform.startswith("linux"):
        _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends, so that none can slip away."""
    if sys.platform.startswith("linux"):
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit_memory_and_files(memory: int, *, processes: bool) -> None:
    """Limit this process and what it starts. memory: bytes on top of what is in use now.

    processes: also limit their number; only where the kernel counts them for this submission alone.
    """
    with contextlib.suppress(OSError, ValueError):  # macOS knows the limit and refuses to set it
        pages = int(
            Path("/proc/self/statm").read_text().split()[0]
        )  # not by number: a new process 1 is another's there
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _MOST_FILE,
        resource.RLIMIT_NOFILE: _MOST_OPEN,
    }
    if processes:
        limits[resource.RLIMIT_NPROC] = MOST_PROCESSES
    for limit, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def close_all_but(channel: int) -> None:
    """Close every file of this process but one; standard input and outputs lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = 65536 if most == resource.RLIM_INFINITY else most
    os.closerange(3, channel)
    os.closerange(channel + 1, most)
