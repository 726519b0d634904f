"""Read Python source as text: find a definition by its name, cut it out, turn a solution into its blank.

Nothing here runs the code that it reads. Every function raises SyntaxError when the source is not Python.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

_BLANK_BODY = "raise NotImplementedError"


def definitions(source: str) -> dict[str, tuple[int, int]]:
    """Find what a piece of source defines at its top level: by `def`, by `class`, by assignment.

    returns: name → (first, last) line, counted from 1, with the decorators; of several definitions the last
    """
    return {name: _span(node) for node in _parse(source).body for name in _names_bound(node)}


def definition(source: str, name: str) -> str | None:
    """Cut out the last definition of `name`, with its decorators and the comment lines right above it.

    returns: the text, or None when the source does not define the name
    """
    span = definitions(source).get(name)
    if span is None:
        return None
    lines = _lines(source)
    first, last = span
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(lines[first - 1 : last])


def replaced(source: str, name: str, replacement: str) -> str:
    """Put `replacement` in the place of every top-level definition of `name`."""
    lines = _lines(source)
    for node in reversed(_parse(source).body):
        if name in _names_bound(node):
            first, last = _span(node)
            lines[first - 1 : last] = _lines(replacement)
    return "\n".join(lines)


def imports(source: str) -> dict[str, str]:
    """The imports at the top level of a source, one line for each name that they bind.

    returns: bound name → import line, for example {"nn": "from torch import nn"}
    """
    found: dict[str, str] = {}
    for node in _parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                single = ast.Import([alias]) if isinstance(node, ast.Import) else _import_from(node, alias)
                found[bound] = ast.unparse(single)
    return found


def names_used(source: str) -> set[str]:
    """Every plain name that a source mentions."""
    return {node.id for node in ast.walk(_parse(source)) if isinstance(node, ast.Name)}


def blank_of(source: str) -> str:
    """Turn a solution into its blank: functions keep signature and docstring and raise NotImplementedError.

    Class docstrings, class attributes, annotations and the order of methods stay as they are.
    """
    lines = _lines(source)
    for function in reversed(list(_outer_functions(_parse(source)))):
        first = function.body[0]
        documented = ast.get_docstring(function, clean=False) is not None
        kept = first.end_lineno if documented else first.lineno - 1
        assert kept is not None  # a parsed node has its lines
        while not documented and lines[kept - 1].lstrip().startswith("#"):
            kept -= 1  # a comment above the first statement belongs to the answer
        indent = " " * (function.col_offset + 4)
        lines[kept : function.end_lineno] = [indent + _BLANK_BODY]
    return "\n".join(lines)


def is_blank(source: str) -> bool:
    """True when every function is still open: it holds `raise NotImplementedError`, `...` or `pass`."""
    functions = list(_outer_functions(_parse(source)))
    return bool(functions) and all(map(_is_open, functions))


def code_lines(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    return len(ast.unparse(_without_docstrings(_parse(source))).splitlines())


def has_loop(source: str) -> bool:
    """True when the source loops in Python: `for`, `while` or a comprehension."""
    loops = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
    return any(isinstance(node, loops) for node in ast.walk(_parse(source)))


def solution(name: str, folder: Path) -> str | None:
    """Read the solution of an exercise as text, with the imports that it uses on top.

    returns: the source, or None when no module in `folder` defines the name
    """
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        text = definition(source, name)
        if text is not None:
            used = names_used(text)
            needed = [line for bound, line in imports(source).items() if bound in used]
            return "\n".join([*needed, "", "", text] if needed else [text])
    return None


def without_imports(source: str) -> str:
    """Drop the top-level imports and the blank lines that they leave at the beginning."""
    lines = _lines(source)
    for node in reversed(_parse(source).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines).strip("\n")


def mentions_definition(text: str, name: str) -> bool:
    """True when broken source still looks as if it meant to define `name`."""
    return re.search(rf"^\s*(?:def|class)\s+{re.escape(name)}\b", text, flags=re.MULTILINE) is not None


def _parse(source: str) -> ast.Module:
    """Parse Python as a cell may hold it: with `await` at the top level, and with lines for IPython."""
    try:
        return _compiled(source)
    except SyntaxError:
        plain = "\n".join(map(_without_magic, _lines(source)))
        if plain == source:
            raise
        return _compiled(plain)


def _compiled(source: str) -> ast.Module:
    if "\0" in source:
        raise SyntaxError("a null character in the text")  # compile() would raise ValueError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the code is warned of is for the one who runs it
        tree = compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    return tree


def _lines(source: str) -> list[str]:
    """Split at line ends only; str.splitlines would also split where Python's parser counts no line."""
    return source.replace("\r\n", "\n").split("\n")


def _without_magic(line: str) -> str:
    """Put `pass` where a line is for IPython (`%matplotlib inline`, `!ls`, `torch?`): line numbers stay."""
    stripped = line.strip()
    is_magic = stripped.startswith(("%", "!", "?")) or stripped.endswith("?")
    return line[: len(line) - len(line.lstrip())] + "pass" if is_magic else line


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return first, node.end_lineno or node.lineno


def _names_bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _import_from(node: ast.ImportFrom, alias: ast.alias) -> ast.ImportFrom:
    return ast.ImportFrom(module=node.module, names=[alias], level=node.level)


def _outer_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods in the order of the text, without the functions inside them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _outer_functions(node)


def _is_open(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (isinstance(statement, ast.Raise) and "NotImplementedError" in ast.unparse(statement))
        for statement in body
    )


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None
            node.body = node.body[1:] if documented else node.body
    return tree
