"""The history of a run on disk."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import pytest

from vaescope.errors import RunError, WriteError
from vaescope.runs.journal import Journal


def row(step: int, split: str = "train") -> dict[str, object]:
    return {"step": step, "split": split, "loss": step / 3}


ROWS = [row(5), row(10), row(10, "test"), row(15)]


def test_rows_are_read_as_they_were_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(ROWS[:1])
    journal.append(ROWS[1:])
    assert Journal(tmp_path).rows() == ROWS


def test_a_new_journal_has_no_rows(tmp_path: Path) -> None:
    assert Journal(tmp_path).rows() == []
    Journal(tmp_path).rewind(0)
    assert Journal(tmp_path).rows() == []


def test_non_finite_numbers_survive_a_round_trip(tmp_path: Path) -> None:
    Journal(tmp_path).append([{**row(1), "loss": math.inf, "rate": math.nan}])
    (read,) = Journal(tmp_path).rows()
    assert read["loss"] == math.inf
    assert math.isnan(read["rate"])


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (5, 1), (10, 3), (15, 4)])
def test_rewinding_drops_later_rows(step: int, kept: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(ROWS)
    journal.rewind(step)
    assert journal.rows() == ROWS[:kept]


@pytest.mark.parametrize(("step", "end"), [(7, 5), (20, 15), (3, 0)])
def test_rewinding_to_a_step_without_a_row_is_refused_and_changes_nothing(step: int, end: int, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(ROWS)
    with pytest.raises(RunError, match=rf"history\.jsonl must reach step {step},.* it ends at {end}\."):
        journal.rewind(step)
    assert journal.rows() == ROWS


def test_rewinding_drops_an_incomplete_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(ROWS)
    journal.path.write_bytes(journal.path.read_bytes()[:-4])
    assert journal.rows() == ROWS[:-1]
    journal.rewind(10)
    journal.append([row(15)])
    assert journal.rows() == ROWS


def test_a_row_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"history\.jsonl.*No space left"):
        Journal(tmp_path).append(ROWS)


@pytest.mark.parametrize("rest", ["", "{", '{"step": 9, "split": "train"}'])
def test_the_last_step_is_that_of_the_last_complete_row(rest: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.last_step() == 0
    journal.path.write_text(rest)
    assert journal.last_step() == 0
    journal.path.write_text('{"step": 7, "split": "train"}\n' + rest)
    assert journal.last_step() == 7
    rows = "".join(json.dumps({"step": step, "split": "probe", "types": "a" * 999}) + "\n" for step in range(3000))
    journal.path.write_text(rows + rest)
    assert journal.last_step() == 2999
