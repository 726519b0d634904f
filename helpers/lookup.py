"""Which exercise an answer is for, and where its code stands."""

from __future__ import annotations

import contextlib
import difflib
import linecache
import sys
from typing import Any

from helpers import source
from helpers.course import BY_NAME, EXERCISES, Exercise


def exercise_of(answer: object, name: str | None = None) -> Exercise:
    """Find the exercise: by the name given, by the answer's own name, or by what the notebook calls it.

    answer: a function or class, an exercise's name, or anything that the notebook holds under such a name
    raises: ValueError, in words, when no exercise is found
    """
    if name is not None:
        return _named(name)
    if isinstance(answer, str):
        return _named(answer)
    own = getattr(answer, "__name__", None)
    if own in BY_NAME:
        return BY_NAME[own]
    called = [name for name, thing in notebook_names().items() if thing is answer and name in BY_NAME]
    kind = type(answer).__name__  # an object, where its class was meant: the check will say so
    for candidate in (*called, kind):
        if candidate in BY_NAME:
            return BY_NAME[candidate]
    if not isinstance(own, str):
        raise ValueError(
            f"This {kind} has no name of its own, so its exercise cannot be found. "
            f'Say which one it is for: check(answer, exercise="{EXERCISES[0].name}").'
        )
    return _named(own)


def source_of(answer: object, name: str) -> str | None:
    """The learner's own code for an answer, or None when it cannot be found.

    IPython keeps every cell's text in linecache; its history is the way out for a class without methods.
    """
    thing = notebook_names().get(name) if isinstance(answer, str) else answer
    names = dict.fromkeys([getattr(thing, "__name__", name), name])
    texts = ["".join(linecache.getlines(file)) for file in _files_of(thing)]
    texts += reversed(notebook_names().get("In", []))
    for text in texts:
        for candidate in names:
            with contextlib.suppress(SyntaxError):
                if (found := source.definition(text, candidate)) is not None:
                    return found
    return None


def notebook_names() -> dict[str, Any]:
    """The names of the running notebook or script."""
    return dict(vars(sys.modules["__main__"]))


def _named(name: str) -> Exercise:
    if name in BY_NAME:
        return BY_NAME[name]
    near = difflib.get_close_matches(name, BY_NAME, n=3, cutoff=0.5)
    known = f"Near names: {', '.join(near)}." if near else f"The exercises: {', '.join(BY_NAME)}."
    example = (near or list(BY_NAME))[0]
    raise ValueError(
        f'The course has no exercise named "{name}". {known} '
        f'An answer may have another name: check(answer, exercise="{example}") says which exercise it is for.'
    )


def _files_of(thing: object) -> list[str]:
    """The files (or cells) that hold a function, or the methods of a class."""
    members = list(vars(thing).values()) if isinstance(thing, type) else [thing]
    codes = [getattr(member, "__code__", None) for member in members]
    return list(dict.fromkeys(code.co_filename for code in codes if code is not None))
