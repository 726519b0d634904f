"""One list of pins, the same for make, conda and CI; two commands that do what README says."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from helpers.__main__ import app
from helpers.course import EXERCISES, NOTEBOOKS

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
WORKFLOW = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
PYTHONS = SpecifierSet(PROJECT["requires-python"])
RUN = [Requirement(line) for line in PROJECT["dependencies"]]
GROUPS = {name: list(map(Requirement, lines)) for name, lines in PROJECT["optional-dependencies"].items()}
SELF = [requirement for requirement in GROUPS["test"] if requirement.name == PROJECT["name"]]
TEST = [requirement for requirement in GROUPS["test"] if requirement not in SELF]
OPTIONAL = [requirement for name, group in GROUPS.items() if name != "test" for requirement in group]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems bring other packages, and a screen")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


# --- the pins -------------------------------------------------------------------------------------


def test_every_constraint_is_one_exact_public_version() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if line[:1] != "#"]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert len(constraints()) == len(lines)


def test_the_test_suite_brings_every_optional_group() -> None:
    assert [extra for requirement in SELF for extra in sorted(requirement.extras)] == sorted(set(GROUPS) - {"test"})


@pytest.mark.parametrize("requirement", RUN + OPTIONAL + TEST, ids=lambda r: r.name)
def test_a_direct_dependency_has_the_same_exact_pin_in_both_files(requirement: Requirement) -> None:
    assert str(requirement.specifier) == f"=={constraints()[canonicalize_name(requirement.name)]}"


def installed_closure() -> dict[str, importlib.metadata.Distribution]:
    """Everything that `.[test]` needs on this machine, from the metadata of what is installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(requirement, "") for requirement in RUN + OPTIONAL + TEST]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        new_extras = ["", *requirement.extras] if name not in found else list(requirement.extras)
        found[name] = importlib.metadata.distribution(name)
        needs = [Requirement(line) for line in found[name].requires or []]
        if name == "torch":  # its CUDA build pins its own libraries exactly, each machine's build others
            needs = [need for need in needs if "==" not in str(need.specifier)]
        waiting += [(need, new) for new in new_extras for need in needs]
    return found


@on_linux
def test_the_tests_run_with_the_versions_that_are_pinned() -> None:
    running = {name: found.version.split("+")[0] for name, found in installed_closure().items()}
    assert {name: constraints().get(name) for name in running} == running


@on_linux
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="later Pythons need fewer packages")
def test_no_constraint_is_left_over() -> None:
    elsewhere = {canonicalize_name(name) for name in constraints()} - set(installed_closure())
    assert elsewhere == set()


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_every_pin_can_be_installed_on_each_supported_python(python: str) -> None:
    assert python in PYTHONS
    needs = {name: found.metadata["Requires-Python"] or "" for name, found in installed_closure().items()}
    assert {name: spec for name, spec in needs.items() if python not in SpecifierSet(spec)} == {}


# --- every dependency is used, and everything used is declared ------------------------------------


def sources(*folders: str) -> list[str]:
    code = [file.read_text("utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")]
    for notebook in (file for folder in folders for file in (ROOT / folder).glob("*.ipynb")):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        code += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return code


def imported(*folders: str) -> set[str]:
    """The distributions that the code in these folders imports, at the top or inside functions."""
    found: set[str] = set()
    for code in sources(*folders):
        found |= distributions(ast.parse("\n".join(line for line in code.splitlines() if line[:1] != "%")))
    return found


@lru_cache
def _homes() -> Mapping[str, list[str]]:
    """Package → the distributions that it comes from; looking through all of them takes a while."""
    return importlib.metadata.packages_distributions()


def distributions(tree: ast.AST) -> set[str]:
    """The distributions that a piece of code imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    homes = _homes()
    outside = names - set(sys.stdlib_module_names) - {"helpers", "solutions", "tests", "answers"}
    return {canonicalize_name(homes[name][0]) for name in outside if name in homes}


def test_every_dependency_is_used() -> None:
    by_command = {"jupyterlab": "-m jupyterlab"}
    unused = {canonicalize_name(requirement.name) for requirement in RUN} - imported(
        "helpers", "notebooks", "solutions"
    )
    assert {name for name in unused if by_command.get(name, "?") not in MAKEFILE} == set()


def test_every_dependency_of_the_tests_is_used() -> None:
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    elsewhere = {
        "mypy": "-m mypy" in MAKEFILE,
        "ruff": "-m ruff" in MAKEFILE,
        "nbval": "--nbval" in MAKEFILE,
        "pytest-timeout": "\ntimeout = " in settings,
        "pytest-xdist": "-m pytest -n auto" in MAKEFILE,
    }
    unused = {canonicalize_name(requirement.name) for requirement in TEST} - imported("tests", "docs")
    assert {name for name in unused if not elsewhere.get(name)} == set()


def test_every_optional_dependency_is_used() -> None:
    unused = {canonicalize_name(requirement.name) for requirement in OPTIONAL} - imported("helpers", "tests")
    assert unused == set()


def test_what_the_course_imports_is_declared() -> None:
    declared = {canonicalize_name(requirement.name) for requirement in RUN + OPTIONAL}
    assert imported("helpers", "notebooks", "solutions") - declared == set()


def test_no_module_of_the_course_needs_an_optional_dependency_to_be_imported() -> None:
    optional = {canonicalize_name(requirement.name) for requirement in OPTIONAL}
    at_the_top: set[str] = set()
    for code in sources("helpers", "solutions"):
        tree = ast.parse(code)
        tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        at_the_top |= distributions(tree)
    assert at_the_top & optional == set()


def test_an_installed_copy_has_every_file_of_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["helpers"]
    packed = {file for pattern in patterns for file in (ROOT / "helpers").glob(pattern) if file.is_file()}
    data = {file for file in (ROOT / "helpers").rglob("*.*") if file.suffix not in (".py", ".pyc") and file.is_file()}
    assert packed == data


# --- make, conda and CI install the same ----------------------------------------------------------


def pip_arguments(target: str) -> list[str]:
    """What the rule of this stamp in the Makefile hands to `pip install`."""
    recipe = MAKEFILE.split(f"\n{target}: pyproject.toml constraints.txt", 1)[1]
    return shlex.split(re.search(r"pip install (.*)", recipe)[1])  # type: ignore[index]


def test_conda_installs_the_same_pins_as_make() -> None:
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    from_conda = [entry for entry in dependencies if isinstance(entry, str)]
    (for_pip,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    assert shlex.split(" ".join(for_pip)) == pip_arguments("$(INSTALLED)") == ["-c", "constraints.txt", "-e", "."]
    assert [re.split("[=<>]", entry)[0] for entry in from_conda] == ["python", "pip"]


def test_conda_brings_a_python_that_the_course_supports() -> None:
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (python,) = [entry for entry in dependencies if str(entry).startswith("python")]
    assert python.removeprefix("python=") + ".0" in PYTHONS


def test_the_test_suite_installs_the_same_pins_and_the_test_tools() -> None:
    assert pip_arguments("$(INSTALLED)-test") == ["-c", "constraints.txt", "-e", ".[test]"]


def test_ci_calls_the_same_commands() -> None:
    job = yaml.safe_load(WORKFLOW)["jobs"]["test"]
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert all(f"{python}.0" in PYTHONS for python in job["strategy"]["matrix"]["python"])
    assert (ROOT / ".ci/run").read_text("utf-8").splitlines()[-1] == "make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)


# --- make, played through with a stand-in for Python ----------------------------------------------


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of what make needs, in a folder with a space; its `python` only writes down its calls."""
    folder = tmp_path / "my course"
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$*" >> calls\n')
    python.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
        os.utime(folder / name, (1, 1))
    return folder


def make(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """Run make and return how Python was called. The screen's variables are those given, and no others."""
    screen = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTHON")
    env = {name: value for name, value in os.environ.items() if name not in screen} | environment
    subprocess.run(["make", *arguments], cwd=folder, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    calls = folder / "calls"
    lines = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return lines


def installs(calls: list[str]) -> list[str]:
    return [call for call in calls if call.startswith("-m pip")]


@needs_make
def test_make_lab_installs_once_and_opens_the_first_notebook(course: Path) -> None:
    install, jupyter = make(course, "lab")
    assert install == "-m pip install -c constraints.txt -e ."
    assert jupyter.startswith("-m jupyterlab --ip=localhost")
    assert "/lab/tree/notebooks/00_start_here.ipynb" in jupyter
    assert "token" not in jupyter  # Jupyter's own token stays on
    assert make(course, "lab") == [jupyter]


@needs_make
def test_make_test_runs_every_part_and_leaves_nothing_to_install_for_lab(course: Path) -> None:
    install, *parts = make(course, "test")
    assert install == "-m pip install -c constraints.txt -e .[test]"
    assert [part.split()[1] for part in parts] == ["ruff", "ruff", "mypy", "pytest", "pytest"]
    assert installs(make(course, "lab")) == installs(make(course, "test")) == []


@needs_make
@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_new_pins_are_installed_at_the_next_start(course: Path, name: str) -> None:
    make(course, "lab")
    later = max(stamp.stat().st_mtime for stamp in (course / ".venv").glob("installed-*")) + 10
    os.utime(course / name, (later, later))
    assert len(installs(make(course, "lab"))) == 1


@needs_make
def test_an_install_that_failed_is_taken_up_again(course: Path) -> None:
    python = course / ".venv/bin/python"
    works = python.read_text()
    python.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        make(course, "lab")
    python.write_text(works)
    assert len(installs(make(course, "lab"))) == 1


@needs_make
def test_a_course_that_was_moved_is_installed_again(course: Path) -> None:
    make(course, "lab")
    moved = course.rename(course.with_name("moved"))
    assert len(installs(make(moved, "lab"))) == 1


@needs_make
@on_linux
def test_without_a_screen_the_address_is_printed(course: Path) -> None:
    assert "--no-browser" in make(course, "lab")[-1]
    assert "--no-browser" not in make(course, "lab", DISPLAY=":0")[-1]
    assert "--no-browser" not in make(course, "lab", BROWSER="firefox")[-1]


@needs_make
@pytest.mark.parametrize(("uid", "allowed"), [(0, True), (1000, False)])
def test_only_root_is_told_to_allow_root(course: Path, uid: int, allowed: bool) -> None:
    stand_in = course / "bin/id"
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\necho {uid}\n")
    stand_in.chmod(0o755)
    jupyter = make(course, "lab", PATH=f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}")[-1]
    assert ("--allow-root" in jupyter) is allowed


@needs_make
def test_an_old_python_is_refused_in_words_and_leaves_nothing_behind(course: Path) -> None:
    shutil.rmtree(course / ".venv")
    result = subprocess.run(["make", "lab", "PYTHON=false"], cwd=course, capture_output=True, text=True)
    assert result.returncode != 0
    assert "needs Python 3.11 or newer" in result.stdout
    assert not (course / ".venv").exists()


# --- README says what is there --------------------------------------------------------------------


def test_readme_maps_the_notebooks_with_their_minutes_and_points() -> None:
    row = r"^\| \[`(\w+)`\]\(notebooks/\1\.ipynb\) \|.*\| (\d+) \| (\d+) \|$"
    expected = []
    for notebook in NOTEBOOKS:
        here = [exercise for exercise in EXERCISES if exercise.notebook == notebook]
        expected.append((notebook, str(sum(e.minutes for e in here)), str(sum(e.points for e in here))))
    assert re.findall(row, README, re.MULTILINE) == expected
    total = f"| all | | {sum(e.minutes for e in EXERCISES)} | {sum(e.points for e in EXERCISES)} |"
    assert total in README.splitlines()


def test_readme_links_lead_somewhere() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_names_only_commands_that_exist() -> None:
    targets = set(re.findall(r"^(\w+):.*##", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"\bmake (\w+)", "\n".join(re.findall(r"`[^`]+`|```.*?```", README, re.DOTALL))))
    assert {"lab", "test"} <= named <= targets
    assert {"class", "grade", "solve"} <= set(re.findall(r"python -m helpers (\w+)", README)) <= commands(app)
    classroom = next(group.typer_instance for group in app.registered_groups if group.name == "class")
    assert set(re.findall(r"python -m helpers class ([\w-]+)", README)) == commands(classroom)


def commands(of: Any) -> set[str]:
    named = [command.name or command.callback.__name__.replace("_", "-") for command in of.registered_commands]
    return {*named, *(group.name for group in of.registered_groups)}


def test_readme_pins_the_torch_of_the_course() -> None:
    assert set(re.findall(r"torch==([\d.]+)", README)) == {constraints()["torch"]}
