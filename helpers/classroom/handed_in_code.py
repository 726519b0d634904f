"""Turns the bytes of a notebook into statements that can be run one by one, and mends what costs an honest learner.

Runs where the learner's code runs, before any of it. It reads the cells itself: nbformat would refuse notebooks that
are damaged in ways that do not matter here, and would look through outputs that nobody needs.
"""

from __future__ import annotations
import __future__

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from IPython.core.inputtransformer2 import TransformerManager

from helpers import source
from helpers.course import BY_NAME
from helpers.notebook import NotebookError

MOST_CELLS = 5_000
MOST_CHARACTERS = 2_000_000  # of all cells together
MOST_JOINED = 6  # cells that one definition may be split into
_MOST_ATTEMPTS = 100  # parses that are spent on one cell which is not Python
_MOST_TRANSLATED = 2_000_000  # characters of a cell times lines of IPython's syntax in it: each reads the cell again

# Cell magics that run their body as Python in the notebook. Sources:
# https://ipython.readthedocs.io/en/stable/interactive/magics.html#cell-magics and the packages line_profiler,
# memory_profiler, pyinstrument, snakeviz. All others (bash, html, writefile, …) hand their body to somebody else.
_PYTHON_MAGICS = {"capture", "debug", "lprun", "memit", "mprun", "prun", "pyinstrument", "snakeviz", "time", "timeit"}
_CELL_MAGIC = re.compile(r"%%(\w+)[^\n]*\n?")
# What IPython's transformations act on. Looked for first, since they read a cell token by token, which takes long.
_FOR_IPYTHON = re.compile(r"^[ \t]*(?:[%!?,;/]|>>>|\.\.\.|In \[\d)|\?[ \t]*$|=[ \t]*[%!]", flags=re.MULTILINE)
_DEFINITION = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", flags=re.MULTILINE)
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")  # what no Python source may hold
_TEXT_KINDS = ("markdown", "raw", "heading", "html")
_CONTINUES = re.compile(r"[)\]}#\s]")  # how no top-level statement begins


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell. Lines are counted from 1, decorators included."""

    first_line: int
    last_line: int
    node: ast.stmt


@dataclass(frozen=True)
class Cell:
    """What of one cell is run.

    number: the cell's place in the notebook, counted from 1, text cells included.
    source: its text as Python; every line stands where the learner has it.
    statements: compile each as `ast.Module([node], [])` with `flags`, which hold top-level `await` and the
        `from __future__` imports so far. defines: the exercises that they give a value to.
    starts: of a cell that was put together again, number → its first line in `source`.
    """

    number: int
    source: str
    statements: tuple[Statement, ...]
    defines: tuple[str, ...]
    flags: int
    starts: tuple[tuple[int, int], ...]

    def place(self, line: int) -> tuple[int, int]:
        """Say where a learner finds a line of `source`. returns: number of the cell, line in it"""
        number, first = next(start for start in reversed(self.starts) if start[1] <= max(line, 1))
        return number, max(line, 1) - first + 1


@dataclass(frozen=True)
class HandedInCode:
    """The code of a notebook.

    broken: cell number and message, such as "line 3: invalid syntax", for each cell of which something was not read.
    repaired: a sentence for each thing that was mended.
    """

    cells: tuple[Cell, ...]
    broken: tuple[tuple[int, str], ...]
    repaired: tuple[str, ...]


_WAS_TEXT = "Cell {number} is a {kind} cell; it was read as code."
_WAS_SPLIT = "Cells {numbers} hold one definition; they were read as one cell."
_SOME_LINES = "Cell {number} is not Python throughout; it was read without {lines}."
_OTHER_CHARACTERS = "The notebook is not saved as UTF-8; some characters may have been read wrongly."
_ANOTHER_MAGIC = "it begins with %%{magic}, so Python does not run it"
_TEXT_NOT_READ = "it is a {kind} cell and not Python throughout, so {name} in it was not read"


def code_of(data: bytes) -> HandedInCode:
    """Read the code of a notebook, however it was damaged on its way.

    Raises NotebookError in words when it is no notebook at all, or is too large.
    """
    repaired: list[str] = []
    cells = [_raw_cell(number, cell) for number, cell in enumerate(_cells(_json(data, repaired)), start=1)]
    if len(cells) > MOST_CELLS:
        raise NotebookError(f"The notebook has more than {MOST_CELLS:,} cells.")
    if sum(len(cell.text) for cell in cells) > MOST_CHARACTERS:
        raise NotebookError(f"The cells of the notebook hold more than {MOST_CHARACTERS:,} characters.")
    broken: dict[int, str] = {cell.number: cell.problem for cell in cells if cell.problem}
    pieces = _joined(_pieces(cells, broken, repaired), repaired)
    read: list[Cell] = []
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for piece in pieces:
        statements = _statements(piece, broken, repaired)
        flags |= _future_flags(statements)
        defines = dict.fromkeys(name for statement in statements for name in _exercises(statement.node))
        read.append(Cell(piece.number, piece.text, statements, tuple(defines), flags, piece.starts))
    return HandedInCode(tuple(read), tuple(sorted(broken.items())), tuple(repaired))


# --- from bytes to cells ---


@dataclass(frozen=True)
class _RawCell:
    number: int
    kind: str  # "code", "markdown", "raw", or what else stands there
    text: str
    problem: str = ""


def _json(data: bytes, repaired: list[str]) -> Any:
    if not data.strip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"):
        raise NotebookError("The file is empty.")
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        repaired.append(_OTHER_CHARACTERS)
    del data
    try:
        return json.loads(text, object_hook=_without_outputs)
    except json.JSONDecodeError as error:
        if re.search(r"^<<<<<<< ", text, flags=re.MULTILINE):
            raise NotebookError("The file is not a notebook: git has left the marks of a conflict in it.") from error
        raise NotebookError(
            f"The file is not a notebook: it is not JSON (line {error.lineno}: {error.msg})."
        ) from error
    except RecursionError as error:
        raise NotebookError("The file is not a notebook: it is nested too deeply.") from error
    except MemoryError as error:
        raise NotebookError("The notebook is too large: it does not fit into memory.") from error
    except ValueError as error:  # a number with thousands of digits
        raise NotebookError(f"The file is not a notebook: it is not JSON ({error}).") from error


def _without_outputs(found: dict[str, Any]) -> dict[str, Any]:
    """Drop outputs while the file is being read: they may be hundreds of megabytes, and only code counts."""
    found.pop("outputs", None)
    return found


def _cells(data: Any) -> list[Any]:
    """The cells of any format: up to format 3 they lie in worksheets."""
    if not isinstance(data, dict):
        raise NotebookError("The file is JSON, but not a notebook: it has no cells.")
    cells = data.get("cells")
    sheets = data.get("worksheets")
    if cells is None and isinstance(sheets, list):
        lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        cells = [cell for some in lists if isinstance(some, list) for cell in some]
    if cells is None:
        raise NotebookError("The file is JSON, but not a notebook: it has no cells.")
    if not isinstance(cells, list):
        raise NotebookError("The file is JSON, but not a notebook: its cells are not a list.")
    if not cells:
        raise NotebookError("The notebook has no cells.")
    return cells


def _raw_cell(number: int, cell: Any) -> _RawCell:
    if not isinstance(cell, dict):
        return _RawCell(number, "code", "", "it is not a cell")
    kind = cell.get("cell_type")
    kind = kind.lower() if isinstance(kind, str) and kind.strip() else "code"
    parts = cell.get("source", cell.get("input", cell.get("code", "")))  # "input" until format 3, "code" in format 1
    parts = [parts] if isinstance(parts, str) else parts
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return _RawCell(number, kind, "", "its text is not a string")
    return _RawCell(number, kind, "".join(parts).replace("\r\n", "\n").replace("\r", "\n"))


# --- which cells are code? ---


@dataclass(frozen=True)
class _Piece:
    """Code that is read as a whole: a cell, or several.

    raw: as the learner wrote it. text: what of it is read, IPython's syntax translated, with the same lines.
    tree: None when it is not Python, and `error` says why.
    """

    starts: tuple[tuple[int, int], ...]
    raw: str
    text: str
    tree: ast.Module | None
    error: _Broken | None = None

    @property
    def number(self) -> int:
        return self.starts[0][0]


def _pieces(cells: Sequence[_RawCell], broken: dict[int, str], repaired: list[str]) -> list[_Piece]:
    """The code cells, and the text cells that were code once."""
    codes = {cell.number: _piece(((cell.number, 1),), _body(cell, broken)) for cell in cells if cell.kind == "code"}
    answered = {name for piece in codes.values() for name in _named(piece) if not _is_blank(piece, name)}
    for cell in cells:
        mentioned = _mentioned(cell.text) - answered
        if cell.kind == "code" or not mentioned:
            continue
        kind = cell.kind if cell.kind in _TEXT_KINDS else "text"
        tree = _python(cell.text)
        if isinstance(tree, ast.Module) and _defined(tree) & mentioned:
            codes[cell.number] = _Piece(((cell.number, 1),), cell.text, cell.text, tree)
            repaired.append(_WAS_TEXT.format(number=cell.number, kind=kind))
        else:
            broken.setdefault(cell.number, _TEXT_NOT_READ.format(kind=kind, name=min(mentioned)))
    return [codes[number] for number in sorted(codes)]


def _mentioned(text: str) -> set[str]:
    """The exercises that a text seems to define, be it Python or not."""
    return {name for name in _DEFINITION.findall(text) if name in BY_NAME}


def _named(piece: _Piece) -> set[str]:
    assigned = {name for node in piece.tree.body for name in _exercises(node)} if piece.tree else set()
    return assigned | _mentioned(piece.text)


def _body(cell: _RawCell, broken: dict[int, str]) -> str:
    """The Python of a code cell. Lines that are only for a cell magic become empty, so that line numbers stay."""
    begin = re.match(r"(?:[ \t]*\n)*", cell.text)
    assert begin is not None  # it matches nothing, too
    start, dropped = begin.end(), ""
    while magic := _CELL_MAGIC.match(cell.text, start):
        if magic[1] not in _PYTHON_MAGICS:
            if _mentioned(cell.text):
                broken[cell.number] = _ANOTHER_MAGIC.format(magic=magic[1][:40])
            return ""
        start = magic.end()
        dropped += "\n"
    return cell.text[: begin.end()] + dropped + cell.text[start:]


def _is_blank(piece: _Piece, name: str) -> bool:
    try:
        text = source.definition(piece.text, name) if piece.tree is not None else None
        return text is not None and source.is_blank(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _defined(tree: ast.Module) -> set[str]:
    """Names of functions and classes. An assignment may be part of a sentence that happens to be Python."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, definitions)}


# --- cells that were split ---


def _joined(pieces: Sequence[_Piece], repaired: list[str]) -> list[_Piece]:
    """Put together what an editor's "split cell" has cut in two or more.

    JupyterLab cuts at the cursor and drops the line ends there, so the second part begins with its own indentation,
    or in the middle of a line. Source: splitCell in
    https://github.com/jupyterlab/jupyterlab/blob/main/packages/notebook/src/actions.tsx
    """
    result: list[_Piece] = []
    waiting = [piece for piece in pieces if piece.tree is None or piece.tree.body]  # no cells of comments alone
    while waiting:
        piece = waiting.pop(0)
        if result and (whole := _continued(result[-1], piece)) is not None:
            result[-1] = whole
        elif piece.tree is None and (found := _completed(result[-1] if result else None, piece, waiting)) is not None:
            whole, used = found
            del waiting[:used]
            if result and whole.number == result[-1].number:
                result.pop()
            result.append(whole)
        else:
            result.append(piece)
    for piece in result:
        if len(piece.starts) > 1:
            *first, last = (str(number) for number, _ in piece.starts)
            repaired.append(_WAS_SPLIT.format(numbers=f"{', '.join(first)} and {last}"))
    return result


def _continued(before: _Piece, piece: _Piece) -> _Piece | None:
    """The two as one, when `piece` goes on with a statement that `before` has left open."""
    if len(before.starts) >= MOST_JOINED or (before.tree is None and piece.tree is not None):
        return None
    if _begins_indented(before.raw):
        return None  # it is indented throughout, and so leaves nothing open
    tail = before.raw.rsplit("\n", 1)[-1]
    cut_in_line = tail != "" and tail.isspace() and not piece.raw[0].isspace() and _hangs(piece, len(tail))
    if piece.tree is not None and not _begins_indented(piece.raw) and not cut_in_line:
        return None
    for between in ("", "\n") if cut_in_line else ("\n", ""):
        whole = _together([before, piece], between)
        if whole is not None and whole.tree is not None and not _is_out_of_reach(whole.tree, whole.starts[-1][1]):
            return whole
    return None


def _completed(before: _Piece | None, piece: _Piece, after: Sequence[_Piece]) -> tuple[_Piece, int] | None:
    """A piece that is not Python alone, made whole with its neighbours. returns: it, and how many after it that took"""
    for used in range(1, min(MOST_JOINED, len(after) + 1)):
        candidates = [[piece, *after[:used]]]
        if before is not None and len(before.starts) < MOST_JOINED:
            candidates.insert(0 if _begins_indented(piece.raw) else 1, [before, piece, *after[:used]])
        for candidate in candidates:
            for between in ("\n", "") if len(candidate) == 2 else ("\n",):
                whole = _together(candidate, between)
                if whole is not None:
                    return whole, used
    return None


def _together(pieces: Sequence[_Piece], between: str) -> _Piece | None:
    """Pieces as one; None when that is not Python either."""
    text = ""
    starts: list[tuple[int, int]] = []
    for piece in pieces:
        if text and not between and "#" in text.rsplit("\n", 1)[-1]:
            return None  # it would vanish in a comment
        text += between if text else ""
        first = text.count("\n")
        starts += [(number, line + first) for number, line in piece.starts]
        text += piece.raw
    whole = _piece(tuple(starts), text)
    return whole if whole.tree is not None else None


def _begins_indented(text: str) -> bool:
    lines = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    return next(lines, "x")[0].isspace()


def _hangs(piece: _Piece, cut: int) -> bool:
    """True when the first line is `cut` characters less indented than the lines below it say, or speaks of `self`."""
    lines = [line for line in piece.text.split("\n")[1:] if line.strip()]
    if lines and len(lines[0]) - len(lines[0].lstrip()) > cut:
        return True
    names = (node for node in _at_top_level(piece.tree) if isinstance(node, ast.Name)) if piece.tree else ()
    return piece.tree is None or any(node.id == "self" for node in names)


def _is_out_of_reach(tree: ast.Module, line: int) -> bool:
    """True when the first statement from `line` on stands behind a `return` or its like: nobody has cut there."""
    leaving = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    follows: tuple[int, bool] | None = None
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if not (isinstance(block, list) and block and isinstance(block[0], ast.stmt)):
                continue
            for before, statement in zip([None, *block], block, strict=False):
                if statement.lineno >= line and (follows is None or statement.lineno < follows[0]):
                    follows = (statement.lineno, isinstance(before, leaving))
    return follows is not None and follows[1]


# --- from text to statements ---


@dataclass(frozen=True)
class _Broken:
    """What Python could not read. line: where, counted from 1."""

    message: str
    line: int


def _piece(starts: tuple[tuple[int, int], ...], raw: str) -> _Piece:
    """A cell as Python; if need be, as IPython's Python."""
    found = _python(raw)
    if isinstance(found, ast.Module):
        return _Piece(starts, raw, raw, found)
    text = _as_python(raw)
    again = found if text is None else _python(text)
    if text is not None and isinstance(again, ast.Module):
        return _Piece(starts, raw, text, again)
    further = isinstance(again, _Broken) and again.line > found.line  # the first error was IPython's syntax
    return _Piece(starts, raw, raw, None, again if further and isinstance(again, _Broken) else found)


def _python(text: str) -> ast.Module | _Broken:
    """Parse hostile text, and compile it, since a `return` at the top level parses. What goes wrong becomes words."""
    wrong = _NO_CHARACTER.search(text)
    if wrong is not None:
        return _Broken("a character that no Python may hold", text.count("\n", 0, wrong.start()) + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the code is warned of is for the one who runs it
            tree = ast.parse(text)
            compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return _Broken(str(error.msg), min(max(error.lineno or 1, 1), text.count("\n") + 1))
    except (RecursionError, MemoryError):
        return _Broken("it is nested too deeply, or too large", 1)
    except ValueError as error:
        return _Broken(str(error), 1)
    return tree


def _as_python(text: str) -> str | None:
    """Let IPython translate its own syntax (`%magic`, `!ls`, `x?`, indented cells, prompts); line numbers stay.

    returns: None when there is nothing to translate, or IPython cannot.
    Source: https://ipython.readthedocs.io/en/stable/config/inputtransforms.html
    """
    often = len(_FOR_IPYTHON.findall(text)) + _begins_indented(text)
    if often == 0 or often * len(text) > _MOST_TRANSLATED:
        return None
    lines = text.rstrip("\n").splitlines(keepends=True)
    if not lines:
        return None
    lines[-1] = lines[-1].rstrip("\n") + "\n"
    manager = TransformerManager()
    empty = next((index for index, line in enumerate(lines) if line.strip()), 0)
    try:
        for transform in cast(list[Callable[[list[str]], list[str]]], manager.cleanup_transforms):
            lines = transform(lines)
        lines = ["\n"] * empty + lines
        for _ in range(often + 1):
            changed, after = manager.do_one_token_transform(lines)
            if not changed:
                return "".join(lines)
            lines = _with_lost_lines(lines, after)
    except Exception:  # IPython asserts and raises many kinds on what is no Python
        return None
    return None


def _with_lost_lines(before: Sequence[str], after: list[str]) -> list[str]:
    """Put empty lines below a statement that IPython has drawn together into one line."""
    lost = len(before) - len(after)
    if lost <= 0:
        return after
    place = next((index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(after))
    return [*after[: place + 1], *["\n"] * lost, *after[place + 1 :]]


def _statements(piece: _Piece, broken: dict[int, str], repaired: list[str]) -> tuple[Statement, ...]:
    """The statements of a piece; of one that is not Python, those that stand before and after what is not."""
    if piece.tree is not None:
        return tuple(map(_statement, piece.tree.body))
    if piece.error is not None:
        broken[piece.number] = f"line {piece.error.line}: {piece.error.message}"
    statements, unread = _readable_parts(piece.text)
    if statements:
        lines = ", ".join(f"line {a}" if a == b else f"lines {a} to {b}" for a, b in unread[:3])
        lines += ", …" if len(unread) > 3 else ""
        repaired.append(_SOME_LINES.format(number=piece.number, lines=lines))
    return tuple(statements)


def _readable_parts(text: str) -> tuple[list[Statement], list[tuple[int, int]]]:
    """Cut a text where top-level statements begin, and keep every run of blocks that is Python.

    returns: the statements, and the (first, last) lines that were not read
    """
    lines = text.split("\n")
    begins = _block_starts(lines)
    ends = [*begins[1:], len(lines)]
    statements: list[Statement] = []
    unread: list[tuple[int, int]] = []
    first, attempts = 0, _MOST_ATTEMPTS
    while first < len(begins):
        last = len(begins)  # one past the last block that is tried
        found: list[Statement] | None = None
        while last > first and found is None and attempts > 0:
            attempts -= 1
            part = _parsed_in_place(lines, begins[first], ends[last - 1])
            if isinstance(part, _Broken):
                stuck = next((i for i, end in enumerate(ends[:last]) if end >= part.line), last - 1)
                last = min(last - 1, max(stuck, first + 1 if part.line == 1 else first))
            else:
                found = part
        if found is None:
            last = first + 1
            unread.append((begins[first] + 1, ends[first]))
        else:
            statements += found
        first = last
    return statements, _runs(unread)


def _block_starts(lines: Sequence[str]) -> list[int]:
    """Indices of the lines at which a top-level statement may begin. The first block takes what stands before."""
    starts = [0]
    decorated = False
    for index, line in enumerate(lines):
        if not line.strip() or _CONTINUES.match(line):
            continue
        if index > 0 and not decorated:
            starts.append(index)
        decorated = line.startswith("@")
    return starts


def _parsed_in_place(lines: Sequence[str], start: int, end: int) -> list[Statement] | _Broken:
    """Parse some lines so that line numbers count from the beginning of the cell."""
    part = _piece((), "\n" * start + "\n".join(lines[start:end]))
    if part.tree is not None:
        return list(map(_statement, part.tree.body))
    return part.error or _Broken("", 1)


def _runs(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring spans of lines as one."""
    runs: list[tuple[int, int]] = []
    for first, last in spans:
        if runs and runs[-1][1] + 1 == first:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return runs


def _statement(node: ast.stmt) -> Statement:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return Statement(first, node.end_lineno or node.lineno, node)


def _exercises(node: ast.stmt) -> Iterator[str]:
    """The exercises that a statement gives a value to, inside `if` or `try` too."""
    for found in _at_top_level(node):
        name = ""
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = found.name
        elif isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
            name = found.id
        elif isinstance(found, ast.alias):
            name = found.asname or found.name
        if name in BY_NAME:
            yield name


def _at_top_level(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, without the insides of functions and classes."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += reversed(list(ast.iter_child_nodes(found)))


def _future_flags(statements: Sequence[Statement]) -> int:
    flags = 0
    for statement in statements:
        if isinstance(statement.node, ast.ImportFrom) and statement.node.module == "__future__":
            features = (getattr(__future__, alias.name, None) for alias in statement.node.names)
            flags |= sum({getattr(feature, "compiler_flag", 0) for feature in features})
    return flags
