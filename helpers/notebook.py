"""Read, fill and execute notebooks; find the answers in them by the name that they define."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import source
from helpers.source import blank_of

__all__ = [
    "Answers",
    "CellTrouble",
    "NotebookError",
    "blank_of",
    "clean",
    "execute",
    "fill",
    "find_answers",
    "read",
    "run",
    "write",
]

Notebook = Any  # nbformat.NotebookNode; nbformat is loaded only when a notebook is read
CELL_TIMEOUT = 60  # seconds
_OLDER_COPY = "take the copy that JupyterLab keeps in .ipynb_checkpoints"
INTERRUPT_WAIT = 5  # seconds that a kernel gets to come back from an interrupt


class NotebookError(Exception):
    """A notebook that cannot be used. The message says what is wrong, where, and what to do."""


@dataclass(frozen=True)
class CellTrouble:
    """A cell that stopped. number: its place in the notebook, counted from 1, text cells included."""

    number: int
    message: str


@dataclass(frozen=True)
class Answers:
    """What a notebook defines.

    cells: name → numbers of the code cells that define it, in order; the last one to run counts
    broken: number → what Python could not read in that cell
    """

    cells: Mapping[str, tuple[int, ...]]
    broken: Mapping[int, str]


def read(path: Path) -> Notebook:
    """Read a notebook of any format, as format 4.5 or newer. Lost ids, tags, counts and outputs do no harm.

    raises: NotebookError when the file is missing or is not a notebook
    """
    import nbformat

    data = _json(path)
    _require(isinstance(data, dict) and ("cells" in data or "worksheets" in data), path, "it has no cells")
    data.setdefault("nbformat", 4 if "cells" in data else 3)
    data.setdefault("nbformat_minor", 0)
    if data["nbformat"] == 4:
        _repair(data, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lost and doubled ids are mended, and nobody has to act
            notebook = nbformat.convert(nbformat.reader.reads(json.dumps(data)), 4)
            notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
            _, notebook = nbformat.validator.normalize(notebook)
            nbformat.validate(notebook)
    except Exception as error:  # nbformat raises many kinds, KeyError and AttributeError among them
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise NotebookError(
            f"{path} is damaged: {reason}. Open it in JupyterLab and save it again, or {_OLDER_COPY}."
        ) from error
    return notebook


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook beside its place, then swap it in: never half a file. Raises NotebookError."""
    import nbformat

    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise NotebookError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def find_answers(notebook: Notebook) -> Answers:
    """Find what the code cells define, by name. A cell that is not Python is reported; the others count."""
    cells: dict[str, tuple[int, ...]] = {}
    broken: dict[int, str] = {}
    for number, cell in _code_cells(notebook):
        try:
            for name in source.definitions(cell.source):
                cells[name] = (*cells.get(name, ()), number)
        except SyntaxError as error:
            if not cell.source.startswith("%%"):  # a cell of another language is none of ours
                broken[number] = f"line {error.lineno}: {error.msg}"
    return Answers(cells, broken)


def fill(notebook: Notebook, answers: Mapping[str, str]) -> Notebook:
    """Put answers in the place of definitions of the same name.

    answers: name → source. Imports at the top of a source go into the same cell when the notebook lacks them.
    returns: a new notebook without outputs; cells keep their ids and tags
    """
    filled = clean(notebook)
    known = _imported(filled)
    for _, cell in _code_cells(filled):
        for name, text in answers.items():
            with suppress(SyntaxError):  # a cell that is not Python stays as it is
                if name in source.definitions(cell.source):
                    needed = [line for bound, line in source.imports(text).items() if bound not in known]
                    body = source.replaced(cell.source, name, source.without_imports(text))
                    cell.source = "\n".join([*needed, "", "", body] if needed else [body])
                    known |= source.imports(text).keys()
    return filled


def clean(notebook: Notebook) -> Notebook:
    """A copy without outputs and execution counts."""
    import copy

    cleaned = copy.deepcopy(notebook)
    for _, cell in _code_cells(cleaned):
        cell.outputs = []
        cell.execution_count = None
    return cleaned


def execute(notebook: Notebook, *, folder: Path, timeout: float = CELL_TIMEOUT) -> Notebook:
    """Run all cells in order in a fresh kernel. Progress is off.

    folder: where the kernel starts
    timeout: seconds a cell may take
    returns: a new notebook with outputs, ready to be saved: no times, no versions, no widget state
    raises: NotebookError for the first cell that stops
    """
    executed = clean(notebook)
    troubles = run(executed, folder=folder, timeout=timeout)
    if troubles:
        raise NotebookError(f"Cell {troubles[0].number} stopped: {troubles[0].message}.")
    _make_stable(executed)
    return executed


def run(
    notebook: Notebook,
    *,
    folder: Path,
    timeout: float = CELL_TIMEOUT,
    afterwards: Sequence[str] = (),
    keep_going: bool = False,
) -> list[CellTrouble]:
    """Run all cells in order in a fresh kernel, in place.

    afterwards: code to run in the same kernel when the cells are through; counted on from the last cell
    keep_going: a cell that raises or takes too long does not stop the others
    returns: what stopped
    raises: NotebookError when the kernel dies or no longer answers
    """
    return asyncio.run(_run(notebook, folder, timeout, afterwards, keep_going))


async def _run(
    notebook: Notebook, folder: Path, timeout: float, afterwards: Sequence[str], keep_going: bool
) -> list[CellTrouble]:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from nbformat.v4 import new_code_cell

    troubles: list[CellTrouble] = []
    client = _client(notebook, folder, troubles)
    own = len(notebook.cells)
    notebook.cells += [new_code_cell(code) for code in afterwards]
    try:
        silent = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }  # of the process, not of the cells
        async with client.async_setup_kernel(env=_kernel_environment(), **silent):
            for index, cell in enumerate(notebook.cells):
                client.timeout = timeout
                try:
                    await client.async_execute_cell(cell, index)
                except DeadKernelError:
                    raise NotebookError(_died(index, own)) from None
                except CellTimeoutError:
                    troubles.append(CellTrouble(index + 1, f"it ran for more than {timeout:g} seconds"))
                    await _interrupt(client, index, own)
                if troubles and not keep_going:
                    break
    finally:
        del notebook.cells[own:]
    return troubles


def _client(notebook: Notebook, folder: Path, troubles: list[CellTrouble]) -> Any:
    from nbclient import NotebookClient

    def note_trouble(*, cell: Notebook, cell_index: int, execute_reply: Mapping[str, Any]) -> None:
        if "raises-exception" not in cell.metadata.get("tags", []):
            content = execute_reply["content"]
            first_line = content["evalue"].strip().split("\n")[0]
            told = f"{content['ename']}: {first_line}" if first_line else content["ename"]
            troubles.append(CellTrouble(cell_index + 1, told.rstrip(".")))

    quiet = logging.getLogger("helpers.notebook.nbclient")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False  # what goes wrong is said in our own words
    return NotebookClient(
        notebook,
        kernel_name="python3",  # a kernel of another name may lack the course
        resources={"metadata": {"path": str(folder)}},
        allow_errors=True,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        shutdown_kernel="immediate",
        on_cell_error=note_trouble,
        log=quiet,
    )


async def _interrupt(client: Any, index: int, own: int) -> None:
    """Stop a cell that takes too long. Raises NotebookError when the kernel does not come back."""
    from nbclient.exceptions import CellTimeoutError
    from nbformat.v4 import new_code_cell

    await client.km.interrupt_kernel()
    client.timeout = INTERRUPT_WAIT
    stopped = client.nb.cells[index]
    try:
        await client.async_execute_cell(new_code_cell("pass"), index)
        client.nb.cells[index] = stopped  # nbclient puts what it runs into the notebook
    except CellTimeoutError:
        raise NotebookError(
            f"The kernel hung in {_place(index, own)} and could not be interrupted, so nothing after it ran. "
            "Does a loop there never end?"
        ) from None


def _kernel_environment() -> dict[str, str]:
    """A learner's progress is not touched, and checks report instead of raising."""
    kept = {name: value for name, value in os.environ.items() if name != "CHECK_STRICT"}
    return {**kept, "ATTENTION_PROGRESS": "off"}


def _died(index: int, own: int) -> str:
    return (
        f"The kernel died in {_place(index, own)}, so nothing after it ran. "
        "Does something there end the process, or take all memory?"
    )


def _place(index: int, own: int) -> str:
    return f"cell {index + 1}" if index < own else "a check"


def _make_stable(notebook: Notebook) -> None:
    """Drop what differs from run to run and from machine to machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
    }
    for _, cell in _code_cells(notebook):
        for output in cell.outputs:
            # The widget itself lives only in its kernel; a saved reference to it shows as an error.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)


def _code_cells(notebook: Notebook) -> list[tuple[int, Notebook]]:
    return [(number, cell) for number, cell in enumerate(notebook.cells, start=1) if cell.cell_type == "code"]


def _imported(notebook: Notebook) -> set[str]:
    names: set[str] = set()
    for _, cell in _code_cells(notebook):
        with suppress(SyntaxError):
            names.update(source.imports(cell.source))
    return names


def _json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NotebookError(f"{path} cannot be read: {error.strerror}. Is the path right?") from error
    except UnicodeDecodeError as error:
        raise NotebookError(_sentence(path, "it is not text")) from error
    _require(bool(text.strip()), path, "it is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise NotebookError(_sentence(path, f"it is not JSON (line {error.lineno}: {error.msg})")) from error
    except RecursionError as error:
        raise NotebookError(_sentence(path, "it is nested too deeply")) from error


def _repair(data: dict[str, Any], path: Path) -> None:
    """Give every cell the fields that other editors may have dropped."""
    cells = data["cells"]
    _require(isinstance(cells, list), path, "its cells are not a list")
    data["metadata"] = data["metadata"] if isinstance(data.get("metadata"), dict) else {}
    for number, cell in enumerate(cells, start=1):
        _require(isinstance(cell, dict) and "source" in cell, path, f"cell {number} has no source")
        cell["cell_type"] = cell.get("cell_type", "code")
        cell["metadata"] = cell["metadata"] if isinstance(cell.get("metadata"), dict) else {}
        if cell["cell_type"] == "code":
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)


def _require(condition: bool, path: Path, what: str) -> None:
    if not condition:
        raise NotebookError(_sentence(path, what))


def _sentence(path: Path, what: str) -> str:
    return f"{path} is not a notebook: {what}. If it was one, {_OLDER_COPY}."
