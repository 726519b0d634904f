"""File names of student reports, tried with the names that people and attackers have."""

from __future__ import annotations

import unicodedata

import pytest

from helpers.classroom.reports.file_names import LONGEST, file_stem, file_stems

NAMES = [
    "ada", "Ada", "ADA", "jane doe", "jane_doe", "Jane Doe", "José Núñez", "李明", "محمد", "अनिता",
    "ß", "SS", "ss", "../x", "..", ".", "", " ", "/etc/passwd", "C:\\x", "a/b", "a\\b", "a:b",
    "a*?b", "<script>", "con", "CON", "con.txt", "nul", "COM1", "com¹", "lpt9", "conin$", "-rf",
    "--help", "~", "$(id)", "`id`", "a\nb", "a\x00b", "\ud800", "\u202eabc", "x" * 300, "x" * 301,
    "李" * 300, "Ｊane", "jane", "e\u0301", "é", "ada-12345678", "name.", "name ", "_", "-", "🙂", "🙃",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_stem_is_safe_on_every_system(name: str) -> None:
    stem = file_stem(name)
    assert 0 < len(stem.encode("utf-8")) <= LONGEST + 9
    assert all(char in "_-" or unicodedata.category(char)[0] in "LMN" for char in stem)
    assert stem[0] not in "-_."
    assert stem == stem.casefold() == unicodedata.normalize("NFC", stem)
    assert stem not in {"con", "prn", "aux", "nul", "com1", "lpt9", "conin"}


def test_different_names_have_different_stems() -> None:
    stems = file_stems(NAMES)
    assert len(stems) == len(NAMES)
    assert len(set(stems.values())) == len(NAMES)


def test_nobody_can_take_the_file_of_another_by_name() -> None:
    taken = file_stem("Jane Doe")
    assert file_stem(taken) != taken
    assert file_stem(f"{taken}-2") != f"{taken}-2"


def test_the_stem_of_a_name_does_not_depend_on_the_others() -> None:
    assert file_stems(["Jane Doe"])["Jane Doe"] == file_stems(NAMES)["Jane Doe"] == file_stem("Jane Doe")


@pytest.mark.parametrize("name", ["ada", "jane_doe", "s1234567", "李明", "émilie-du-châtelet"])
def test_a_plain_name_is_its_own_stem(name: str) -> None:
    assert file_stem(name) == name


def test_a_changed_name_stays_readable() -> None:
    assert file_stem("Jane Doe").startswith("jane_doe-")
    assert file_stem("../../Müller, Jörg").startswith("müller_jörg-")


def test_the_stems_never_change() -> None:
    assert file_stem("Jane Doe") == "jane_doe-01332c87"
    assert file_stem("???") == "student-a03b221c"


def test_names_made_to_share_a_stem_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.classroom.reports import file_names

    monkeypatch.setattr(file_names, "file_stem", lambda name: "same")
    assert file_names.file_stems(["a", "b", "c"]) == {"a": "same", "b": "same-2", "c": "same-3"}
