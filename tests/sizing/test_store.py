"""A search on disk trains once, survives crashes and damaged files, and resumes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vaescope as vs
from vaescope.data import open_dataset
from vaescope.errors import DamagedRunWarning, RunError
from vaescope.nets import MLP
from vaescope.sizing.gaps import Evidence, GapTerms
from vaescope.sizing.result import Fondue
from vaescope.sizing.store import (
    RESULT_FILE,
    TIME_FILE,
    GapJournal,
    StateFiles,
    add_training_time,
    load_results,
    member_id,
)
from vaescope.training import Member

SETTINGS: dict[str, Any] = {
    "net": MLP((8,), (8,)),
    "seeds": 2,
    "period": 12,
    "max_periods": 3,
    "init": 2,
    "largest": 6,
    "batch": 16,
    "learning_rate": 3e-2,
    "likelihood": {"name": "gaussian", "variance": 0.05},
    "precision": "float64",
    "probe_items": 200,
    "device": "cpu",
}


def searched(runs: Path | None, **options: Any) -> Fondue:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=8, items=300)
    return vs.fondue(data, runs=runs, **{**SETTINGS, **options})


def lasting(result: Fondue) -> dict[str, Any]:
    """Everything that must not depend on interruptions."""
    return {
        name: value
        for name, value in vars(result).items()
        if name not in ("seconds", "seconds_per_step", "trained_steps")
    }


def folder_of(runs: Path) -> Path:
    (folder,) = runs.glob("fondue-*")
    return folder


class Killed(BaseException):
    """Looks like the end of the process to the code under test."""


def crash_at(call: int, done_first: bool, function: Callable[..., Any]) -> tuple[list[int], Callable[..., Any]]:
    """The function, which dies at its `call`-th call, before or after doing its work; and the count of calls."""
    count = [0]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == call and not done_first:
            raise Killed
        result = function(*arguments, **options)
        if count[0] == call:
            raise Killed
        return result

    return count, wrapped


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fondue]:
    runs = tmp_path_factory.mktemp("finished")
    return runs, searched(runs)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that stopped while it wrote the states of its second group of models."""
    runs = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", crash_at(22, False, Path.replace)[1])
        with pytest.raises(Killed):
            searched(runs)
    return runs


def copied(runs: Path, target: Path) -> Path:
    shutil.copytree(runs, target / "copy")
    return target / "copy"


def test_a_repeated_search_trains_nothing(finished: tuple[Path, Fondue]) -> None:
    runs, first = finished
    second = searched(runs)
    assert first.trained_steps > 0
    assert second.trained_steps == 0
    assert lasting(second) == lasting(first)


def test_the_result_is_the_same_with_and_without_a_folder(finished: tuple[Path, Fondue]) -> None:
    assert lasting(searched(None)) == lasting(finished[1])


def test_the_folder_of_a_finished_search_holds_measurements_and_result_but_no_states(
    finished: tuple[Path, Fondue],
) -> None:
    runs, result = finished
    assert {path.name for path in folder_of(runs).iterdir()} == {RESULT_FILE, TIME_FILE, "history.jsonl", ".lock"}
    (kept,) = load_results(runs)
    assert (kept["latents"], kept["mean"], kept["sd"]) == (result.latents, result.mean, result.sd)
    assert kept["curve"] == result.curve
    assert kept["seeds"] == result.rows()
    assert kept["summary"].startswith(f"{result.latents} latents for gaussian-manifold")


def test_another_threshold_reuses_measurements(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(finished[0], tmp_path)
    values = [searched(runs, threshold=threshold) for threshold in (0.2, 1.0, 3.0)]
    assert all(len(list(runs.glob("fondue-*"))) == 1 for _ in values)
    assert values[1].trained_steps == 0
    assert max(value.trained_steps for value in values) < finished[1].trained_steps
    table = searched(runs, gap={"name": "trace", "threshold": 0.2})
    assert (table.trained_steps, table.values) == (0, values[0].values)


def test_more_seeds_train_only_the_new_ones(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(finished[0], tmp_path)
    third = searched(None, seeds=[2])
    more = searched(runs, seeds=3)
    assert more.trained_steps == third.trained_steps
    assert more.values == (*finished[1].values, *third.values)
    for probe, same in zip([probe for probe in more.probes if probe.seed == 2], third.probes, strict=True):
        assert probe.gap == pytest.approx(same.gap, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"learning_rate": 1e-3}, {"objective": {"name": "beta", "beta": 4.0}}, {"period": 10}, {"gap": "dimension"}],
    ids=["learning rate", "objective", "period", "gap"],
)
def test_other_settings_do_not_share_measurements(
    options: dict[str, Any], finished: tuple[Path, Fondue], tmp_path: Path
) -> None:
    runs = copied(finished[0], tmp_path)
    result = searched(runs, seeds=1, **options)
    assert result.trained_steps > 0
    assert lasting(result) == lasting(searched(None, seeds=1, **options))


def test_a_search_with_your_own_gap_is_not_stored(tmp_path: Path) -> None:
    def spread(evidence: Evidence) -> float:
        return float(evidence.codes.mean.shape[1]) - 2

    result = searched(tmp_path, gap=spread, threshold=1.0)
    assert result.values == (3, 3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("done_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [1, 9, 11, 15, 27, 41])
def test_a_search_resumes_after_a_crash_at_any_write(
    call: int, done_first: bool, finished: tuple[Path, Fondue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash_at(call, done_first, Path.replace)[1])
        with pytest.raises(Killed):
            searched(tmp_path)
    assert lasting(searched(tmp_path)) == lasting(finished[1])
    assert {path.name for path in folder_of(tmp_path).iterdir()} == {RESULT_FILE, TIME_FILE, "history.jsonl", ".lock"}


def same_but_for_rounding(result: Fondue, other: Fondue) -> None:
    """Models whose files were lost train again in other groups, whose sums are rounded differently."""
    assert result.values == other.values
    assert [answer.periods for answer in result.answers] == [answer.periods for answer in other.answers]
    assert [(probe.value, probe.seed, probe.periods) for probe in result.probes] == [
        (probe.value, probe.seed, probe.periods) for probe in other.probes
    ]
    assert [probe.gap for probe in result.probes] == pytest.approx(
        [probe.gap for probe in other.probes], rel=1e-9, abs=1e-9
    )


def test_an_interrupted_search_trains_only_what_is_missing(
    interrupted: Path, finished: tuple[Path, Fondue], tmp_path: Path
) -> None:
    result = searched(copied(interrupted, tmp_path))
    assert 0 < result.trained_steps < finished[1].trained_steps
    assert lasting(result) == lasting(finished[1])


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_store import searched
print("started", flush=True)
searched(Path(sys.argv[2]))
"""


def lines(runs: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in runs.glob("fondue-*/history.jsonl"))


@pytest.mark.slow
def test_killed_processes_do_not_change_the_result(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs, command = tmp_path / "killed", [sys.executable, "-c", WORKER, str(Path(__file__).parent)]
    hits = 0
    for _ in range(2):
        before = lines(runs)
        worker = subprocess.Popen([*command, str(runs)], stdout=subprocess.PIPE, text=True)
        while worker.poll() is None and lines(runs) < before + 3:
            time.sleep(0.002)
        hits += worker.poll() is None
        worker.kill()
        worker.communicate()
    assert hits == 2
    result = searched(runs)
    assert 0 < result.trained_steps < finished[1].trained_steps
    assert lasting(result) == lasting(finished[1])


def test_a_search_of_another_process_is_not_touched(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(finished[0], tmp_path)
    folder = folder_of(runs)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    holder = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(folder / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(RunError, match=folder.name):
            searched(runs)
        other.kill()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert searched(runs).trained_steps == 0


def test_a_measurement_cut_short_is_made_again(
    interrupted: Path, finished: tuple[Path, Fondue], tmp_path: Path
) -> None:
    runs = copied(interrupted, tmp_path)
    history = folder_of(runs) / "history.jsonl"
    history.write_bytes(history.read_bytes()[:-9])
    assert lasting(searched(runs)) == lasting(finished[1])
    assert all(json.loads(line) for line in history.read_text().splitlines())


def test_lost_measurements_are_made_again(interrupted: Path, finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(interrupted, tmp_path)
    (folder_of(runs) / "history.jsonl").unlink()
    assert list((folder_of(runs) / "states").iterdir())
    assert lasting(searched(runs)) == lasting(finished[1])


def test_lost_states_are_made_again(interrupted: Path, finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(interrupted, tmp_path)
    shutil.rmtree(folder_of(runs) / "states")
    same_but_for_rounding(searched(runs), finished[1])


DAMAGED_LINES = {
    "garbage": (b"\xff\x00garbage\n", "line 1, is damaged"),
    "no step": (b'{"split": "trace", "member": "a", "minuend": 1.0, "subtrahend": 0.0}\n', "line 1, .*'step'"),
    "no member": (b'{"step": 1, "split": "trace", "minuend": 1.0, "subtrahend": 0.0}\n', "KeyError: 'member'"),
    "no term": (b'{"step": 1, "split": "trace", "member": "a", "minuend": 1.0}\n', "KeyError: 'subtrahend'"),
    "a term as text": (
        b'{"step": 1, "split": "trace", "member": "a", "minuend": "1", "subtrahend": 0.0}\n',
        "TypeError",
    ),
}


@pytest.mark.parametrize(("line", "words"), DAMAGED_LINES.values(), ids=DAMAGED_LINES)
def test_a_damaged_measurement_is_named(line: bytes, words: str, finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(finished[0], tmp_path)
    history = folder_of(runs) / "history.jsonl"
    content = line + history.read_bytes()
    history.write_bytes(content)
    with pytest.raises(RunError, match=rf"history\.jsonl.*{words}"):
        searched(runs)
    assert history.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"not a state at all" * 9], ids=["empty", "garbage"])
def test_a_damaged_state_is_named_and_the_remedy_works(
    content: bytes, interrupted: Path, finished: tuple[Path, Fondue], tmp_path: Path
) -> None:
    runs = copied(interrupted, tmp_path)
    file = max((folder_of(runs) / "states").glob("*.safetensors"))
    file.write_bytes(content)
    with pytest.raises(RunError, match=file.name):
        searched(runs)
    file.unlink()
    same_but_for_rounding(searched(runs), finished[1])


def test_a_state_with_a_flipped_bit_is_named(interrupted: Path, tmp_path: Path) -> None:
    runs = copied(interrupted, tmp_path)
    file = max((folder_of(runs) / "states").glob("*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-5] ^= 4
    file.write_bytes(bytes(content))
    with pytest.raises(RunError, match=rf"{file.name}.*checksum"):
        searched(runs)


def test_load_results_names_a_damaged_file(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    runs = copied(finished[0], tmp_path)
    (folder_of(runs) / RESULT_FILE).write_text('{"latents": 3,')
    with pytest.warns(DamagedRunWarning, match=RESULT_FILE):
        assert load_results(runs) == []
    assert searched(runs).trained_steps == 0
    assert load_results(runs)[0]["latents"] == finished[1].latents


def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the folder of runs should be")
    with pytest.raises(RunError, match=r"file/fondue-\w+"):
        searched(tmp_path / "file")


def test_a_journal_lists_the_measured_gaps(finished: tuple[Path, Fondue], tmp_path: Path) -> None:
    folder = folder_of(copied(finished[0], tmp_path))
    journal, member = GapJournal(folder), Member(2, learning_rate=3e-2)
    assert ("trace", member, 1) in journal
    assert ("trace", member, 99) not in journal


def test_a_measured_gap_is_a_line_of_the_journal_and_is_read_back(tmp_path: Path) -> None:
    key = ("trace", Member(2), 3)
    GapJournal(tmp_path)[key] = GapTerms(4.5, 3.0)
    row = json.loads((tmp_path / "history.jsonl").read_text())
    assert len(row.pop("sha256")) == 64
    assert row == {"step": 3, "split": "trace", "member": member_id(Member(2)), "minuend": 4.5, "subtrahend": 3.0}
    assert GapJournal(tmp_path)[key] == GapTerms(4.5, 3.0)


def test_states_are_restored_bit_for_bit(interrupted: Path, tmp_path: Path) -> None:
    folder = folder_of(copied(interrupted, tmp_path))
    states, member = StateFiles(folder), Member(2, learning_rate=3e-2)
    state = states.get(member)
    assert state is not None
    assert state.step == SETTINGS["period"]
    states.update({Member(3): state})
    again = states.get(Member(3))
    assert again is not None
    assert again.parameters.equal(state.parameters)
    assert states.get(Member(4)) is None
    del states[Member(3)]
    assert states.get(Member(3)) is None


def test_the_time_of_a_step_is_that_of_all_searches_of_a_folder(tmp_path: Path) -> None:
    assert add_training_time(tmp_path, 5.0, 0) is None
    assert list(tmp_path.iterdir()) == []
    assert add_training_time(tmp_path, 1.0, 10) == pytest.approx(0.1)
    assert add_training_time(tmp_path, 5.0, 30) == pytest.approx(6 / 40)
    assert add_training_time(tmp_path, 9.0, 0) == pytest.approx(6 / 40)
    (tmp_path / TIME_FILE).write_text("{")
    with pytest.raises(RunError, match=r"spent\.json.*JSONDecodeError"):
        add_training_time(tmp_path, 1.0, 1)
