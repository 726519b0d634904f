"""The student edition: complete, working, the same bytes every time, and without anything to copy an answer from."""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import typer.main
import yaml
from typer.testing import CliRunner

from helpers.__main__ import app
from helpers.classroom.release import MARKER, ReleaseError, release, student_files, student_makefile, student_readme
from helpers.course import EXERCISES, NOTEBOOKS

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = (ROOT / "helpers/classroom/templates/README.md").read_text("utf-8")
WORKFLOW = (ROOT / "helpers/classroom/templates/grade.yml").read_text("utf-8")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

# Whole statements of a solution that a notebook shows on purpose, and where.
SHOWN = {
    "self.query_proj = nn.Linear(hidden_dim, hidden_dim)": "notebooks/02_self_attention_v2.ipynb",
    "self.key_proj = nn.Linear(hidden_dim, hidden_dim)": "notebooks/02_self_attention_v2.ipynb",
    "self.value_proj = nn.Linear(hidden_dim, hidden_dim)": "notebooks/02_self_attention_v2.ipynb",  # stage 1, for 2
    "return torch.softmax(scores, dim=-1)": "notebooks/03_self_attention_v3.ipynb",  # the tutorial with its bug
}


# Shapes of code that every PyTorch class has, or that the contract says in words.
SAID_ALOUD = {"super().__init__()", "nn.Linear(_, _ * _)"}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the whole course without git, which nobody works on while the tests run."""
    folder = tmp_path_factory.mktemp("copy") / "course"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "*_cache", "__pycache__", ".ipynb_*"))
    return folder


@pytest.fixture(scope="module")
def edition(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "student edition"
    release(folder, root=course)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- what is in it --------------------------------------------------------------------------------


def test_it_holds_the_course_and_no_answers(edition: Path) -> None:
    names = set(contents(edition))
    assert {f"notebooks/{stem}.ipynb" for stem in NOTEBOOKS} <= names
    assert {"README.md", "Makefile", "LICENSE", "LICENSE-text", ".gitignore", "pyproject.toml"} <= names
    assert {"constraints.txt", "environment.yml", ".github/workflows/grade.yml", MARKER} <= names
    assert {f"helpers/judge/recorded/{n}" for n in ("book.json", "right.safetensors", "wrong.safetensors")} <= names
    assert "helpers/classroom/commands.py" in names
    odd = re.compile(r"solutions/|tests/|mistakes|CONTRIBUTING|record\.py|matrix|release\.py|nbgrader_export|\.ci/")
    assert [name for name in names if odd.search(name) and not name.startswith("helpers/classroom/reports/")] == []


def test_notebooks_and_helpers_are_byte_for_byte_those_of_the_course(course: Path, edition: Path) -> None:
    own = {"README.md", "Makefile", MARKER, ".github/workflows/grade.yml"}
    copied = {name: data for name, data in contents(edition).items() if name not in own}
    assert copied == {name: (course / name).read_bytes() for name in copied}


def test_no_file_imports_the_solutions(edition: Path) -> None:
    pattern = re.compile(
        r"^\s*(?:from|import)\s+solutions\b|import_module\(\W*f?\W*solutions|__import__\(\W*solutions", re.M
    )
    assert [name for name, text in texts_of(edition).items() if pattern.search(text)] == []


def test_git_and_a_walk_find_the_same_files(course: Path) -> None:
    assert list(student_files(ROOT)) == list(student_files(course))


def test_git_leaves_out_what_it_ignores(course: Path, tmp_path: Path) -> None:
    copied = tmp_path / "course"
    shutil.copytree(course, copied)
    subprocess.run(["git", "init", "-q"], cwd=copied, check=True)
    (copied / ".gitignore").write_text("helpers/private.py\n")
    for name in ("private", "new"):
        (copied / f"helpers/{name}.py").write_text("")
    names = student_files(copied)
    assert "helpers/new.py" in names
    assert "helpers/private.py" not in names


def test_a_copy_without_solutions_can_be_released(course: Path, tmp_path: Path) -> None:
    bare = tmp_path / "course"
    shutil.copytree(course, bare, ignore=shutil.ignore_patterns("solutions", "tests"))
    assert student_files(bare) == student_files(course)


def test_a_notebook_in_which_somebody_worked_is_not_handed_out(course: Path, tmp_path: Path) -> None:
    worked = tmp_path / "course"
    shutil.copytree(course, worked)
    file = worked / "notebooks/00_start_here.ipynb"
    text = file.read_text("utf-8").replace("    raise NotImplementedError", "    return weights.mm(values)")
    file.write_text(text, "utf-8")
    with pytest.raises(ReleaseError, match=r"00_start_here\.ipynb holds an answer to weighted_average\. Put the blank"):
        release(tmp_path / "edition", root=worked)
    assert not (tmp_path / "edition").exists()


def test_a_copy_that_lacks_a_part_is_told_which(course: Path, tmp_path: Path) -> None:
    broken = tmp_path / "course"
    shutil.copytree(course, broken)
    (broken / "constraints.txt").unlink()
    with pytest.raises(ReleaseError, match=r"not complete: constraints\.txt is missing"):
        release(tmp_path / "edition", root=broken)


# --- README, make, GitHub ---------------------------------------------------------------------------


def test_readme_says_what_is_true_for_a_student(edition: Path) -> None:
    readme = (edition / "README.md").read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", readme) if "://" not in link]
    assert [link for link in links if not (edition / link).exists()] == []
    assert "{{" not in readme
    targets = set(re.findall(r"^(\w+):", (edition / "Makefile").read_text("utf-8"), re.M))
    assert (
        {"lab"}
        <= set(re.findall(r"\bmake (\w+)", "\n".join(re.findall(r"```.*?```|`[^`]+`", readme, re.S))))
        <= targets
    )
    for stem in NOTEBOOKS:
        here = [e for e in EXERCISES if e.notebook == stem]
        assert re.search(rf"`{stem}`.* \| {sum(e.minutes for e in here)} \| {sum(e.points for e in here)} \|", readme)
    assert f"| {sum(e.minutes for e in EXERCISES)} | {sum(e.points for e in EXERCISES)} |" in readme


def test_readme_takes_its_numbers_from_the_course_and_its_words_from_the_main_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    stale = readme.replace("| 26 | 20 |", "| 1 | 2 |").replace("scoreboard()  #", "scoreboard()  # CHANGED")
    made = student_readme(stale, TEMPLATE)
    assert stale != readme
    assert "| 1 | 2 |" not in made
    assert "# CHANGED" in made
    with pytest.raises(ReleaseError, match='no section "Start"'):
        student_readme(readme.replace("## Start", "## Begin"), TEMPLATE)


@needs_make
def test_make_lists_and_starts_what_is_there(edition: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my course"
    shutil.copytree(edition, folder)
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$*" >> calls\n')
    python.chmod(0o755)

    def make(*targets: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(
            ["make", *targets], cwd=folder, env=env, check=True, capture_output=True, text=True
        ).stdout

    assert [line.split()[0] for line in make().splitlines()] == ["help", "lab", "clean"]
    make("lab")
    install, jupyter = (folder / "calls").read_text().splitlines()
    assert install == "-m pip install -c constraints.txt -e ."
    assert "/lab/tree/notebooks/00_start_here.ipynb" in jupyter
    make("clean")
    assert not (folder / ".venv").exists()


def test_the_makefile_follows_that_of_the_course() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    made = student_makefile(makefile.replace("--ip=localhost", "--ip=127.0.0.1"))
    assert "--ip=127.0.0.1" in made
    assert re.findall(r"^\.PHONY: (.*)$", made, re.M) == ["help lab clean"]
    assert not re.search(r"pytest |solutions|tests|-test", made)


def test_the_workflow_takes_the_checks_from_the_teacher_and_may_only_read(edition: Path) -> None:
    assert (edition / ".github/workflows/grade.yml").read_text("utf-8") == WORKFLOW
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow[True] == ["push"]  # YAML reads `on` as a truth value
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["grade"]["steps"]
    used = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)
    theirs, ours = (step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout"))
    assert "repository" not in theirs
    assert (ours["repository"], ours["ref"]) == ("${{ env.COURSE_REPOSITORY }}", "${{ env.COURSE_REF }}")
    assert not theirs["persist-credentials"]
    assert not ours["persist-credentials"]
    (grading,) = (step for step in steps if "class grade" in step.get("run", ""))
    assert grading["working-directory"] == ours["path"] != theirs["path"]


def test_the_workflow_names_options_that_exist() -> None:
    (line,) = (
        step["run"]
        for step in yaml.safe_load(WORKFLOW)["jobs"]["grade"]["steps"]
        if "class grade" in step.get("run", "")
    )
    command: Any = typer.main.get_command(app)
    for name in ("class", "grade"):
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {"--single", "--out", "--summary"} <= set(re.findall(r"--[\w-]+", line)) <= known


# --- the same bytes, and nothing lost -------------------------------------------------------------------


def test_the_same_course_gives_the_same_bytes(course: Path, edition: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "a.zip", tmp_path / "deep" / "b.zip"
    release(tmp_path / "one", zip_to=first, root=course)
    report = release(tmp_path / "two", zip_to=again, root=course)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(edition)
    assert first.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(first) as packed:
        names = packed.namelist()
        assert names == sorted(names)
        assert {name.removeprefix("attention-by-hand/"): packed.read(name) for name in names} == contents(edition)
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o100644}
    assert report.zip_size == again.stat().st_size
    assert str(report).splitlines()[1].startswith(f"{again}: the same as a zip file")
    if os.name == "posix":
        assert {p.stat().st_mode & 0o777 for p in edition.rglob("*")} == {0o644, 0o755}


def test_a_former_release_is_replaced_and_its_repository_kept(course: Path, tmp_path: Path) -> None:
    to = tmp_path / "edition"
    (to / ".git").mkdir(parents=True)
    (to / ".git/HEAD").write_text("ref: refs/heads/main\n")
    release(to, root=course)
    marker = json.loads((to / MARKER).read_text())
    old = to / "helpers/old.py"
    old.write_text("x = 1\n")
    marker["sha256"]["helpers/old.py"] = "597e84d9fdbbb6f7ceac4cb0929dbce20d2ba5bb2cfc5eed2f0c23dd2b2cc4dd"
    with pytest.raises(ReleaseError, match=r"helpers/old\.py is no file of a former release"):
        release(to, root=course)
    import hashlib

    marker["sha256"]["helpers/old.py"] = hashlib.sha256(old.read_bytes()).hexdigest()
    (to / MARKER).write_text(json.dumps(marker))
    (to / "helpers/__pycache__").mkdir()
    report = release(to, root=course)
    assert report.set_aside is None
    assert not old.exists()
    assert (to / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert [path.name for path in tmp_path.iterdir()] == ["edition"]


@pytest.mark.parametrize("changed", ["my notes.txt", "notebooks/01_self_attention_v1.ipynb"])
def test_a_folder_with_somebodys_work_is_refused_and_with_force_kept_beside(
    course: Path, changed: str, tmp_path: Path
) -> None:
    to = tmp_path / "edition"
    release(to, root=course)
    (to / changed).write_text("mine")
    before = contents(to)
    with pytest.raises(ReleaseError, match=f"{changed} is no file of a former release as it was written.*--force"):
        release(to, root=course)
    assert contents(to) == before
    report = release(to, force=True, root=course)
    assert report.set_aside == tmp_path / "edition.before"
    assert contents(tmp_path / "edition.before") == before
    assert f"What was in {to} before is now in {report.set_aside}." in str(report)
    (to / changed).write_text("mine again")
    assert release(to, force=True, root=course).set_aside == tmp_path / "edition.before-2"


def test_a_zip_that_is_no_release_is_kept(course: Path, tmp_path: Path) -> None:
    file = tmp_path / "photos.zip"
    file.write_bytes(b"PK")
    with pytest.raises(ReleaseError, match=r"photos\.zip exists and is no former release"):
        release(tmp_path / "edition", zip_to=file, root=course)
    assert [path.name for path in tmp_path.iterdir()] == ["photos.zip"]
    release(tmp_path / "edition", zip_to=file, force=True, root=course)
    release(tmp_path / "edition", zip_to=file, root=course)
    assert zipfile.is_zipfile(file)


@pytest.mark.parametrize(
    ("to", "zip_to", "said"),
    [
        (ROOT, None, "holds the course itself"),
        (ROOT.parent, None, "holds the course itself"),
        (ROOT / "helpers/edition", None, "holds the course itself"),
        (ROOT / "README.md", None, "is a file"),
        (Path("edition"), Path("edition/edition.zip"), "would lie in the folder that it packs"),
        (Path("edition"), ROOT, "is a folder"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_places_that_cannot_be_meant_are_refused(
    to: Path, zip_to: Path | None, said: str, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReleaseError, match=said):
        release(to, zip_to=zip_to, force=force)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_in_words(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(ReleaseError, match=rf"stopped at {tmp_path}: Permission denied\. Nothing was changed"):
        release(tmp_path / "edition", root=course)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["write_bytes", "rename"])
def test_what_stops_half_way_leaves_all_as_it_was(
    course: Path, failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "edition"
    (to / ".git").mkdir(parents=True)
    release(to, root=course)
    before, real, calls = contents(to), getattr(Path, failing), []

    def fail_later(self: Path, *args: Any) -> Any:
        calls.append(self)
        if len(calls) == 3:  # the third file; or the third rename, which is the new folder's
            raise OSError(28, "No space left on device", str(self))
        return real(self, *args)

    monkeypatch.setattr(Path, failing, fail_later)
    with pytest.raises(ReleaseError, match="No space left on device"):
        release(to, zip_to=tmp_path / "edition.zip", root=course)
    assert contents(to) == before
    assert (to / ".git").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["edition"]


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["class", "release", "--to", str(tmp_path / "edition")])
    assert outcome.exit_code == 0, outcome.output
    assert "It holds no solutions and no known mistakes." in outcome.output
    (tmp_path / "edition/mine.txt").write_text("")
    outcome = CliRunner().invoke(app, ["class", "release", "--to", str(tmp_path / "edition")])
    assert outcome.exit_code == 2
    assert "mine.txt is no file of a former release" in outcome.output


# --- nothing to copy: the text ----------------------------------------------------------------------


def texts_of(folder: Path) -> dict[str, str]:
    """Every text of an edition, also those inside notebooks and JSON; code twice, once as `ast` writes it."""
    found = {}
    for name, data in contents(folder).items():
        if name.endswith((".png", ".safetensors")):
            continue
        text = data.decode("utf-8")
        parts = list(strings_in(json.loads(text))) if name.endswith((".json", ".ipynb")) else [text]
        found[name] = "\n".join([*parts, *(ast.unparse(tree) for tree in trees_of(name, text))])
    return found


def trees_of(name: str, text: str) -> Iterator[ast.Module]:
    if name.endswith(".py"):
        yield ast.parse(text)
    elif name.endswith(".ipynb"):
        for cell in nbformat.reads(text, 4).cells:
            if cell.cell_type == "code":
                yield ast.parse(cell.source)


def strings_in(data: Any) -> Iterator[str]:
    """All strings of some JSON; a list of lines, as notebooks hold them, counts as one text."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, list) and data and all(isinstance(line, str) for line in data):
        yield "".join(data)
    elif isinstance(data, list | dict):
        for value in data.values() if isinstance(data, dict) else data:
            yield from strings_in(value)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace('"', "'"))


def steps_in(node: ast.AST) -> int:
    """Calls and operators: what a line of code does."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return sum(steps_in(child) for child in ast.iter_child_nodes(node))
    sign = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    own = isinstance(node, ast.Call | ast.BinOp | ast.Compare | ast.UnaryOp) and not sign
    return own + sum(steps_in(child) for child in ast.iter_child_nodes(node))


def answers() -> list[ast.Module]:
    files = [*(ROOT / "solutions").glob("*.py"), *(ROOT / "solutions/mistakes").glob("*.py")]
    return [ast.parse(file.read_text("utf-8")) for file in files if file.name != "catalogue.py"]


def telling_statements() -> set[str]:
    """Every simple statement inside a right or wrong answer that does something and is long enough to be told by."""
    found = set()
    for tree in answers():
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)):
            for node in ast.walk(function):
                simple = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr)
                if simple and steps_in(node) and len(ast.unparse(node)) >= 25:
                    found.add(plain(ast.unparse(node)))
                elif isinstance(node, ast.Lambda) and steps_in(node.body) >= 2:
                    found.add(plain(ast.unparse(node.body)))
    return found


def copied_statements(folder: Path) -> list[tuple[str, str]]:
    """(file, statement) for each telling statement that stands somewhere in an edition."""
    statements = telling_statements()
    texts = {name: plain(text) for name, text in texts_of(folder).items()}
    hits = [(name, each) for name, text in texts.items() for each in statements if each in text]
    return sorted((name, each) for name, each in hits if SHOWN.get(each) != name)


class _Nameless(ast.NodeTransformer):
    """Names and numbers do not matter, what is called on them does."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(node.id if node.id in ("torch", "F", "nn", "math", "super") else "_", ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return ast.Name("_", ast.Load()) if is_number else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        own = ast.unparse(node.value) == "_" and not hasattr(torch.Tensor, node.attr)
        return ast.Name("_", ast.Load()) if own else node


def shapes_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(shape, source) of every expression of two steps or more."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and steps_in(node) >= 2:
            yield ast.unparse(_Nameless().visit(copy.deepcopy(node))), ast.unparse(node)


def copied_shapes(folder: Path) -> list[tuple[str, str]]:
    """(file, expression) for each expression that is one of a solution's under other names."""
    solutions = [ast.parse(file.read_text("utf-8")) for file in (ROOT / "solutions").glob("*.py")]
    wanted = {shape for tree in solutions for shape, _ in shapes_of(tree)} - SAID_ALOUD
    trees = [(name, tree) for name, data in contents(folder).items() if name.endswith((".py", ".ipynb"))
             for tree in trees_of(name, data.decode("utf-8"))]  # fmt: skip
    return [(name, text) for name, tree in trees for shape, text in shapes_of(tree) if shape in wanted]


def test_no_line_of_an_answer_stands_anywhere(edition: Path) -> None:
    assert len(telling_statements()) > 200
    assert copied_statements(edition) == []


def test_no_expression_of_a_solution_stands_anywhere_under_other_names(edition: Path) -> None:
    assert copied_shapes(edition) == []


@pytest.mark.parametrize(
    "name", ["helpers/demo.py", "helpers/judge/recorded/book.json", "notebooks/04_multi_head_attention.ipynb"]
)
def test_a_planted_line_is_found(name: str, edition: Path, tmp_path: Path) -> None:
    planted = tmp_path / "edition"
    shutil.copytree(edition, planted)
    text = (planted / name).read_text("utf-8")
    if name.endswith(".py"):
        text += "\n\ndef f(x, h):\n    B, L, d = x.shape\n    return   x.transpose(1,2).reshape(B, L, h*d_k) # merged\n"
    else:
        line = "return x.transpose(1, 2).reshape(B, L, h * d_k)"
        data = json.loads(text)
        if name.endswith(".json"):
            data["words"]["planted"] = {"cause": f"Write:\n  {line}"}
        else:
            data["cells"][0]["source"] += ["\n", "```\n", f"{line}\n", "```\n"]
        text = json.dumps(data)
    (planted / name).write_text(text, "utf-8")
    assert (name, "return x.transpose(1, 2).reshape(B, L, h * d_k)") in copied_statements(planted)


def test_a_planted_expression_under_other_names_is_found(edition: Path, tmp_path: Path) -> None:
    planted = tmp_path / "edition"
    shutil.copytree(edition, planted)
    with (planted / "helpers/demo.py").open("a") as stream:
        stream.write("\n\ndef lower(n):\n    return torch.ones(n, n, dtype=torch.bool).tril()\n")
    assert ("helpers/demo.py", "torch.ones(n, n, dtype=torch.bool).tril()") in copied_shapes(planted)


# --- nothing to copy: what runs -----------------------------------------------------------------------

# Only the edition and the installed libraries are on the path, not the course that this test belongs to.
_ALONE = f"""
import sys
sys.path[:] = [""] + [path for path in sys.path if path not in ("", {str(ROOT)!r}) and "editable" not in path]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
"""

_TRY_EVERYTHING = """
import importlib, inspect, json, pkgutil
import helpers
from helpers import course
from helpers.judge import check_answer
from helpers.judge.function_probes import function_calls
from helpers.judge.probes import CLASSES

NUMBER, TENSOR, LAYERS = ("float", "int"), ("Tensor", "tuple"), ("Linear", "Module", "tuple", "list")
GIVES = {"dot_product_std": NUMBER, "attention_parameters": NUMBER, "fused_xavier_ratio": NUMBER,
         "fuse_projections": LAYERS, "stack_heads": LAYERS, "init_attention_weights": ("None",)}
# These start processes, write files or end the program; none of them computes with tensors.
LEFT_OUT = ("helpers.classroom", "helpers.__main__", "helpers.notebook", "helpers.grading", "helpers.progress")

def things(module):
    for name, thing in list(vars(module).items()):
        if inspect.isfunction(thing) or inspect.isclass(thing):
            if thing.__module__.startswith("helpers"):
                yield f"{module.__name__}.{name}", thing
        elif isinstance(thing, dict) and name != "__builtins__":
            functions = {key: value for key, value in thing.items() if inspect.isfunction(value)}
            yield from ((f"{module.__name__}.{name}[{key!r}]", value) for key, value in functions.items())

def plausible(thing, exercise):
    try:
        signature = inspect.signature(thing)
        if exercise in CLASSES:
            signature.bind(24, 4) if exercise == "MultiHeadAttention" else signature.bind(24)
            return inspect.isclass(thing)
        signature.bind(*function_calls(exercise)[0].make())
    except (TypeError, ValueError):
        return False
    gives = str(signature.return_annotation)
    return not inspect.isclass(thing) and any(
        part in gives for part in (*GIVES.get(exercise, TENSOR), "Any", "empty", "object")
    )

seen, tried, passed, modules = set(), 0, [], []
for info in pkgutil.walk_packages(helpers.__path__, "helpers."):
    if info.name == "helpers.__main__":
        continue
    module = importlib.import_module(info.name)
    modules.append(info.name)
    if info.name.startswith(LEFT_OUT):
        continue
    for name, thing in things(module):
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        for exercise in course.BY_NAME:
            if plausible(thing, exercise):
                tried += 1
                if check_answer(thing, exercise).passed:
                    passed.append([name, exercise])
print(json.dumps({"modules": modules, "things": len(seen), "tried": tried, "passed": passed}))
"""


def run_inside(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CHECK_STRICT")}
    env |= {"ATTENTION_PROGRESS": "off", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
    command = [sys.executable, "-c", _ALONE + textwrap.dedent(code), *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def tried_inside(folder: Path) -> dict[str, Any]:
    outcome = run_inside(folder, _TRY_EVERYTHING)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout.splitlines()[-1])


def test_nothing_in_the_helpers_is_an_answer(edition: Path, tmp_path: Path) -> None:
    planted = tmp_path / "edition"
    shutil.copytree(edition, planted)
    (planted / "helpers/planted.py").write_text(
        "import math\nfrom torch import nn\n\ndef _hidden(scores, mask):\n"
        "    return scores.masked_fill(mask == 0, -math.inf).softmax(-1)\n\nWAYS = {'std': lambda d: d**0.5}\n"
    )
    found = tried_inside(planted)
    assert {"helpers.demo", "helpers.classroom.commands", "helpers.judge.probes"} <= set(found["modules"])
    assert found["things"] > 200
    assert found["tried"] > 100
    assert found["passed"] == [
        ["helpers.planted._hidden", "masked_softmax"],
        ["helpers.planted._hidden", "repaired_weights"],
        ["helpers.planted.WAYS['std']", "dot_product_std"],
    ]


def test_it_checks_and_names_and_reveals_nothing(edition: Path) -> None:
    outcome = run_inside(
        edition,
        """
        import torch, helpers
        print(helpers.__file__)
        def softmax(scores):
            powers = torch.exp(scores - torch.amax(scores, -1, True))
            return powers / torch.sum(powers, -1, True)
        print(helpers.check(softmax))
        def softmax(scores):
            powers = torch.exp(scores - torch.amax(scores, -2, True))
            return powers / torch.sum(powers, -2, True)
        print(helpers.check(softmax).findings[0].id)
        print(helpers.reveal(softmax))
        try:
            import solutions
        except ModuleNotFoundError as error:
            print(error)
        """,
    )
    where, passed, *_, named, revealed, missing = outcome.stdout.splitlines()
    assert Path(where).is_relative_to(edition)
    assert passed.startswith("softmax: passed")
    assert named == "softmax-over-queries"
    assert revealed.startswith("This copy of the course holds no solutions.")
    assert missing == "No module named 'solutions'"


def test_its_commands_work(edition: Path) -> None:
    code = 'import runpy; runpy.run_module("helpers", run_name="__main__", alter_sys=True)'
    for arguments in (["--help"], ["class", "--help"], ["grade", "--help"]):
        outcome = run_inside(edition, code, *arguments)
        assert outcome.returncode == 0, outcome.stderr
        assert "Usage: python -m helpers" in outcome.stdout
    outcome = run_inside(edition, code, "grade", "notebooks/00_start_here.ipynb")
    assert outcome.returncode == 1, outcome.stderr
    assert "0 of 2 points" in outcome.stdout
