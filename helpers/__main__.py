"""The command line, `python -m helpers`: only parses, calls and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from helpers import paths
from helpers.classroom.commands import app as classroom
from helpers.course import BY_NAME, NOTEBOOKS

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from helpers.bench.attention_table import Grid, Results, Table
    from helpers.grading import NotebookGrade

WIDE = 140  # columns for the wide table of `bench` where the output goes to a file
CANNOT = 2  # the exit code when a command cannot do what was asked; 1 means that not all is passed

app = typer.Typer(
    help="Tools around the course: grade notebooks or a class, solve notebooks, refresh their outputs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(classroom, name="class")
Timeout = Annotated[float, typer.Option(min=1, metavar="S", help="Seconds that one cell may take.")]


@app.command()
def grade(
    path: Annotated[
        Path,
        typer.Argument(metavar="NOTEBOOK_OR_FOLDER", exists=True, help="A notebook, or a folder of them."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    timeout: Timeout = 60,
) -> None:
    """Run notebooks in order and check their answers. Files and progress stay as they are.

    Exit code: 0 when everything is passed, 1 when not, 2 when there is nothing to grade.
    """
    from helpers import grading

    files = grading.notebooks_in(path)
    if not files:
        _stop(f"There is no notebook in {path}.")
    grades = [grading.grade(file, timeout=timeout) for file in files]
    if as_json:
        typer.echo(json.dumps(_as_dict(grades), indent=1))
    else:
        _print_tables(grades)
    raise typer.Exit(0 if all(one.passed for one in grades) else 1)


@app.command()
def solve(
    path: Annotated[
        Path, typer.Argument(metavar="NOTEBOOK", exists=True, dir_okay=False, help="The notebook to solve.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", dir_okay=False, help="Where the solved notebook goes.")],
    force: Annotated[bool, typer.Option("--force", help="Write over FILE if it exists.")] = False,
) -> None:
    """Write the solved notebook: every blank filled from `solutions/`, outputs cleared."""
    from helpers import notebook, source

    if not paths.SOLUTIONS.is_dir():
        _stop(f"This copy of the course holds no solutions: {paths.SOLUTIONS} is missing.")
    if to.resolve() == path.resolve():
        _stop("The solved notebook cannot take the place of the notebook itself. Choose another FILE.")
    if to.exists() and not force:
        _stop(f"{to} exists. Choose another FILE, or add --force to write over it.")
    try:
        blank = notebook.read(path)
        found = notebook.find_answers(blank)
        names = [name for name in BY_NAME if name in found.cells]
        solutions = {name: text for name in names if (text := source.solution(name, paths.SOLUTIONS)) is not None}
        if not solutions:
            _stop(f"{path} defines no exercise of the course, so there is nothing to fill.")
        notebook.write(notebook.fill(blank, solutions), to)
    except notebook.NotebookError as error:
        _stop(str(error))
    typer.echo(f"{to}: filled {', '.join(solutions)}.")
    for number, message in found.broken.items():
        typer.echo(f"Cell {number} was left as it is: {message}.", err=True)
    for name in names:
        if name not in solutions:
            typer.echo(f"{name} was left as it is: it has no solution in {paths.SOLUTIONS}.", err=True)


@app.command()
def refresh(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[NOTEBOOK]...", exists=True, dir_okay=False, help="Default: all."),
    ] = None,
    timeout: Timeout = 60,
) -> None:
    """Run the course's notebooks again, blanks open, and save clean outputs in place. For authors."""
    from helpers import notebook

    for file in files or [paths.NOTEBOOKS / f"{stem}.ipynb" for stem in NOTEBOOKS]:
        try:
            executed = notebook.execute(notebook.read(file), folder=file.resolve().parent, timeout=timeout)
            notebook.write(executed, file)
        except notebook.NotebookError as error:
            _stop(f"{file} is as it was. {error}")
        typer.echo(f"{file}: refreshed.")


@app.command()
def bench(
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FOLDER", file_okay=False, help="Where the JSON and the pictures go."),
    ] = Path("bench-results"),
    small: Annotated[bool, typer.Option("--small", help="The notebook's grid: seconds, not minutes.")] = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cpu, cuda or mps. Default: the best one that is there."),
    ] = None,
) -> None:
    """Measure multi-head attention written in five ways, on this machine: time, memory, launches."""
    import dataclasses

    from rich.console import Console

    from helpers.bench import attention_table

    grid = attention_table.SMALL if small else attention_table.LARGE
    try:
        to.mkdir(parents=True, exist_ok=True)  # before the minutes of measuring
        results = _with_bar(dataclasses.replace(grid, device=device))
        files = attention_table.save(results, to)
    except (ValueError, OSError) as error:
        _stop(str(error))
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    console.print(_rich_table(results.table()))
    for sentence in results.sentences():
        console.print(sentence, highlight=False)
    console.print(f"Written: {', '.join(map(str, files))}", highlight=False)


def _with_bar(grid: Grid) -> Results:
    from rich.progress import Progress

    from helpers.bench import attention_table

    with Progress(transient=True) as bar:
        task = bar.add_task("starting", total=None)
        return attention_table.run(
            grid,
            progress=lambda done, total, said: bar.update(task, completed=done, total=total, description=said),
        )


def _rich_table(rows: Table) -> RichTable:
    from rich.table import Table as RichTable

    table = RichTable(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    return table


def _stop(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(CANNOT)


def _as_dict(grades: list[NotebookGrade]) -> dict[str, object]:
    return {
        "passed": all(one.passed for one in grades),
        "points": sum(one.points for one in grades),
        "max_points": sum(one.max_points for one in grades),
        "notebooks": [one.as_dict() for one in grades],
    }


def _print_tables(grades: list[NotebookGrade]) -> None:
    from rich.console import Console

    from helpers.grade_table import lines

    console = Console()
    for one in grades:
        for line in lines(one):
            console.print(line)
    total, possible = sum(one.points for one in grades), sum(one.max_points for one in grades)
    console.print(f"{total:g} of {possible:g} points", highlight=False)


if __name__ == "__main__":
    app(prog_name="python -m helpers")
