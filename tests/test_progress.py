"""Progress is remembered, safe with several kernels, and never costs the learner anything."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from helpers import paths, progress
from helpers.progress import Entry


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test left in memory is nothing to the next."""
    monkeypatch.setattr(progress, "_waiting", {})
    monkeypatch.setattr(progress, "_unsaid", [])
    monkeypatch.setattr(progress, "_said", set())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "progress.json"
    monkeypatch.setenv("ATTENTION_PROGRESS", str(path))
    return path


def one_more_hint(entry: Entry) -> Entry:
    return dataclasses.replace(entry, hints=entry.hints + 1)


def test_nothing_is_remembered_at_first(file: Path) -> None:
    assert progress.read() == {}
    assert not file.exists()
    assert progress.notices() == []


def test_a_change_is_read_back(file: Path) -> None:
    changed = progress.update("softmax", lambda entry: Entry(2, 1, 1, 3.5, "wrong", ("softmax-wrong-axis",)))
    assert changed == Entry(2, 1, 1, 3.5, "wrong", ("softmax-wrong-axis",))
    assert progress.read() == {"softmax": changed}


def test_exercises_do_not_touch_each_other(file: Path) -> None:
    progress.update("softmax", one_more_hint)
    progress.update("causal_mask", one_more_hint)
    progress.update("softmax", one_more_hint)
    assert {name: entry.hints for name, entry in progress.read().items()} == {"softmax": 2, "causal_mask": 1}


def test_the_file_names_its_version(file: Path) -> None:
    progress.update("softmax", one_more_hint)
    assert json.loads(file.read_text("utf-8"))["version"] == progress.VERSION


def test_nothing_but_the_file_and_its_lock_is_left(file: Path) -> None:
    progress.update("softmax", one_more_hint)
    assert {path.name for path in file.parent.iterdir()} <= {"progress.json", "progress.json.lock"}


def test_several_kernels_lose_nothing(file: Path) -> None:
    code = (
        "import dataclasses; from helpers import progress\n"
        "for _ in range(20):\n"
        "    progress.update('softmax', lambda e: dataclasses.replace(e, attempts=e.attempts + 1))\n"
        "assert progress.notices() == []"
    )
    kernels = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [kernel.wait(timeout=60) for kernel in kernels] == [0, 0, 0]
    assert progress.read()["softmax"].attempts == 60


DAMAGED = {
    "nothing in it": "",
    "half a file": '{"version": 1, "exerc',
    "not JSON": "softmax: passed",
    "another kind of JSON": "[1, 2, 3]",
    "another version": '{"version": 99, "exercises": {}}',
    "no exercises": '{"version": 1}',
    "an entry without fields": '{"version": 1, "exercises": {"softmax": {}}}',
    "a word for a number": '{"version": 1, "exercises": {"softmax": {"attempts": "many"}}}',
    "deeply nested": "[" * 100_000,
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_set_aside_and_said(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    progress.update("softmax", one_more_hint)
    aside = file.with_name("progress.damaged-1.json")
    assert aside.read_text(encoding="utf-8") == text
    assert progress.read()["softmax"].hints == 1
    (line,) = progress.notices()
    assert "progress.damaged-1.json" in line


def test_a_file_that_is_not_text_is_set_aside(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    assert progress.read() == {}
    assert file.with_name("progress.damaged-1.json").read_bytes() == b"\xff\xfe\x00"


def test_an_older_damaged_file_is_not_overwritten(file: Path) -> None:
    for text in ("first", "second"):
        file.write_text(text, encoding="utf-8")
        progress.update("softmax", one_more_hint)
    kept = [file.with_name(f"progress.damaged-{number}.json").read_text("utf-8") for number in (1, 2)]
    assert kept == ["first", "second"]


def test_a_notice_is_handed_out_once(file: Path) -> None:
    file.write_text("?", encoding="utf-8")
    progress.read()
    assert len(progress.notices()) == 1
    assert progress.notices() == []


def refuse_to_write(file: Path, entries: progress.Entries) -> None:
    raise PermissionError(13, "Permission denied")


def test_in_a_read_only_folder_progress_lives_in_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_write", refuse_to_write)
    for _ in range(3):
        progress.update("softmax", one_more_hint)
    assert progress.read()["softmax"].hints == 3
    (line,) = progress.notices()  # three failures, said once
    assert "in memory only" in line
    assert "Permission denied" in line


def test_what_waited_in_memory_is_written_when_that_is_possible_again(file: Path) -> None:
    progress.update("softmax", one_more_hint)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "_write", refuse_to_write)
        progress.update("softmax", one_more_hint)
    assert json.loads(file.read_text("utf-8"))["exercises"]["softmax"]["hints"] == 1
    progress.update("causal_mask", one_more_hint)
    assert json.loads(file.read_text("utf-8"))["exercises"]["softmax"]["hints"] == 2


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_PROGRESS", str(tmp_path / "file" / "progress.json"))
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert progress.update("softmax", one_more_hint).hints == 1
    assert progress.read()["softmax"].hints == 1
    assert len(progress.notices()) == 1


def test_a_lock_that_nobody_gives_back_is_waited_for_only_a_little(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOCK_WAIT", 0.05)
    with filelock.FileLock(f"{file}.lock"):
        assert progress.update("softmax", one_more_hint).hints == 1
    assert not file.exists()
    assert "another kernel" in progress.notices()[0]
    progress.update("softmax", one_more_hint)
    assert json.loads(file.read_text("utf-8"))["exercises"]["softmax"]["hints"] == 2


def test_a_crash_while_writing_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.update("softmax", one_more_hint)
    before = file.read_text("utf-8")

    def crash(source: object, target: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", crash)
    progress.update("softmax", one_more_hint)
    assert file.read_text("utf-8") == before
    assert list(file.parent.glob("*.tmp")) == []


def test_off_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_PROGRESS", "off")
    monkeypatch.setattr(progress, "ROOT", tmp_path)
    assert progress.path() is None
    progress.update("softmax", one_more_hint)
    assert progress.read()["softmax"].hints == 1
    assert list(tmp_path.iterdir()) == []


def test_under_pytest_it_is_off_by_itself() -> None:
    assert progress.path() is None


def test_without_a_wish_the_file_stands_in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VERSION", raising=False)
    assert progress.path() == paths.ROOT / "progress.json"
