"""What a learner's cells meet in a worker in place of `helpers` and of IPython: things that do nothing.

The demonstrations of a notebook take most of its time and have no part in an answer. With stand-ins all cells can be
run, in their order, in a blink.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any


class Anything:
    """Takes every call and gives itself back. It is true, empty, and draws nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Anything:
        return self

    def __getitem__(self, _: Any) -> Anything:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __repr__(self) -> str:
        return "(not shown while grading)"


class _StandIn(ModuleType):
    """A module that has every name."""

    def __init__(self, name: str):
        super().__init__(name)
        self.__path__: list[str] = []  # any part of it can be imported

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the course's own packages, and nothing else."""

    def __init__(self, packages: Sequence[str]):
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install(*packages: str) -> None:
    """Let every later import of these packages, and of their parts, find a stand-in."""
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(packages))
