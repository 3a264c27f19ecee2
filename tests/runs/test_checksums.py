"""Changed numbers in files of a run are noticed; one bad run hides no other."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import vaescope as vs
from vaescope import cli
from vaescope.errors import DamagedRunWarning, RunError, VaescopeError
from vaescope.runs import FitOptions, MeasurementSpec, Run, Store, fit, fit_many, measure, verify
from vaescope.runs.record import RunRecord, identity_of
from vaescope.runs.rows import read_row, read_rows
from vaescope.runs.sealed import sealed
from vaescope.training import Member, Trainer
from vaescope.training.checkpoint import load_state, save_tensors

OLD = Path(__file__).parents[1] / "compatibility" / "store_0_1"
DATA = np.random.default_rng(0).normal(size=(40, 5))
SETTINGS: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]},
    "steps": 12,
    "batch": 8,
    "log_every": 2,
    "evaluate_every": 4,
    "checkpoint_seconds": 0.0,
    "device": "cpu",
    "progress": False,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for run in fit_many("digits", [Member(2, seed=seed) for seed in range(3)], FitOptions(runs=folder, **SETTINGS)):
        measure(run, MeasurementSpec(items=50))
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    advance, left = Trainer.advance, [4]

    def stop(trainer: Trainer) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return advance(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, 2, runs=tmp_path / "interrupted", **SETTINGS)
    (file,) = (tmp_path / "interrupted").glob("*/run.json")
    return file.parent


def paths(store: Path) -> list[Path]:
    return sorted(file.parent for file in store.glob("*/run.json"))


def change(file: Path, edit: Callable[[str], str]) -> None:
    """Change a file; its time stays."""
    times, before = file.stat(), file.read_text()
    file.write_text(edit(before))
    assert file.read_text() != before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced(pattern: str, value: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, value, text, count=1)


def without_checksum(text: str) -> str:
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "sha256"})


def halved(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2])


LOSS = r'"test_loss": [0-9.e+-]+'


@pytest.mark.parametrize(
    "edit",
    [
        replaced(LOSS, '"test_loss": 0.0001'),
        without_checksum,
        lambda text: replaced(LOSS, '"test_loss": 0')(without_checksum(text)),
    ],
    ids=["changed", "without its checksum", "changed and without its checksum"],
)
def test_a_changed_row_is_not_shown(edit: Callable[[str], str], store: Path) -> None:
    expected = read_rows(store)
    change(paths(store)[0] / "summary.json", edit)
    assert read_rows(store) == expected
    (problem,) = verify(store).problems
    assert "summary.json is damaged" in str(problem)


@pytest.mark.parametrize(
    "edit", [replaced(r'"rate": [0-9.e+-]+', '"rate": 1e-9'), without_checksum], ids=["changed", "without its checksum"]
)
def test_changed_measurements_are_named_and_the_other_runs_shown(edit: Callable[[str], str], store: Path) -> None:
    bad, *good = paths(store)
    change(bad / "results.json", edit)
    found = read_rows(store)
    assert (list(found.rows), list(found.problems)) == (good, [bad])
    assert "results.json is damaged" in str(found.problems[bad])


@pytest.mark.parametrize("edit", [halved, replaced(r'"loss": [0-9.]+', '"loss": 0.5')], ids=["halved", "changed"])
def test_a_changed_history_is_named_and_the_others_can_be_queried(edit: Callable[[str], str], store: Path) -> None:
    bad, *good = paths(store)
    change(bad / "history.jsonl", edit)
    assert len(read_rows(store).rows) == 3
    with pytest.warns(DamagedRunWarning, match=rf"{bad.name}/history\.jsonl is damaged"):
        rows = Store(store).query("SELECT DISTINCT run FROM history ORDER BY run")[1]
    assert rows == [(path.name,) for path in good]
    with pytest.raises(RunError, match=r"history\.jsonl is damaged"):
        _ = Run.open(bad).history
    assert [str(bad / "history.jsonl") in str(problem) for problem in verify(store).problems] == [True]


def test_weights_of_another_run_are_named(store: Path) -> None:
    one, other, _ = paths(store)
    shutil.copy(other / "model.safetensors", one / "model.safetensors")
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        _ = Run.open(one).model


@pytest.mark.parametrize("seed", range(6))
def test_an_interrupted_run_does_not_resume_from_a_changed_history(seed: int, interrupted: Path) -> None:
    history = interrupted / "history.jsonl"
    state = load_state(interrupted / "state.safetensors")
    digits = [match.start() for match in re.finditer(r"\d", history.read_text())]
    place = digits[np.random.default_rng(seed).integers(len(digits))]
    change(history, lambda text: f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}")
    with pytest.raises(RunError, match=r"history\.jsonl"):
        fit(DATA, 2, runs=interrupted.parent, **SETTINGS)
    assert list(read_rows(interrupted.parent).problems) == [interrupted]
    assert load_state(interrupted / "state.safetensors").step == state.step


def test_an_interrupted_run_resumes_and_its_checksums_hold(interrupted: Path) -> None:
    assert verify(interrupted.parent).problems == ()
    run = fit(DATA, 2, runs=interrupted.parent, **SETTINGS)
    assert set(run.provenance.checksums) == {"history.jsonl", "model.safetensors"}
    assert verify(interrupted.parent).problems == ()


def test_runs_of_0_1_have_no_checksums_with_a_note(tmp_path: Path) -> None:
    runs = Path(shutil.copytree(OLD / "runs", tmp_path / "runs"))
    found = verify(runs)
    assert found.problems == ()
    assert len(found.without_checksums) == found.runs == len(paths(runs))
    assert "no checksums" in found.summary()
    shown = CliRunner().invoke(cli.app, ["runs", "show", paths(runs)[0].name, "--runs", str(runs)])
    assert re.search(r"checked.*no checksums", shown.stdout)


def test_a_whole_store_is_verified_with_every_bad_file_named(store: Path) -> None:
    assert verify(store).problems == ()
    files = ["run.json", "history.jsonl", "model.safetensors"]
    for path, name in zip(paths(store), files, strict=True):
        content = bytearray((path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (path / name).write_bytes(content)
    problems = verify(store).problems
    assert len(problems) == 3
    assert all(
        str(path / name) in str(problem) for path, name, problem in zip(paths(store), files, problems, strict=True)
    )
    one = CliRunner().invoke(cli.app, ["runs", "verify", paths(store)[1].name, "--runs", str(store), "--json"])
    assert one.exit_code == 1
    assert len(json.loads(one.stdout)["problems"]) == 1


def test_equal_states_are_equal_bytes(tmp_path: Path) -> None:
    tensors, notes = {"b": torch.ones(3), "a": torch.zeros(2)}, {name: name for name in "zyxwvuabc"}
    checksums = {save_tensors(tmp_path / str(number), tensors, notes) for number in range(8)}
    assert len(checksums) == len({(tmp_path / str(number)).read_bytes() for number in range(8)}) == 1


def deep(text: str) -> str:
    return "[" * 100_000


DAMAGES = {
    "a damaged record": ("run.json", halved),
    "a deep record": ("run.json", deep),
    "deep measurements": ("results.json", deep),
    "a deep row": ("summary.json", deep),
}


@pytest.mark.parametrize(("name", "edit"), DAMAGES.values(), ids=DAMAGES)
def test_one_bad_run_hides_no_other(name: str, edit: Callable[[str], str], store: Path, tmp_path: Path) -> None:
    bad, *good = paths(store)
    (bad / name).write_text(edit((bad / name).read_text()))
    shown = 3 if name == "summary.json" else 2
    found = read_rows(store)
    assert (len(found.rows), len(found.problems)) == (shown, 3 - shown)
    if shown == 3:
        return
    with pytest.warns(DamagedRunWarning, match=bad.name):
        assert [row["id"] for row in vs.runs.table(store)] == [path.name for path in good]
    with pytest.warns(DamagedRunWarning, match=bad.name):
        assert Store(store).query("SELECT id FROM runs ORDER BY id")[1] == [(path.name,) for path in good]


def test_the_exit_code_is_1_if_a_run_was_skipped(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, *good = paths(store)
    (bad / "run.json").write_text("{")
    for words in (["--json"], ["--csv", str(tmp_path / "all.csv")], ["sql", "SELECT id FROM runs"]):
        monkeypatch.setattr("sys.argv", ["vaescope", "runs", "--runs", str(store), *words])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as end:
                cli.main()
        assert end.value.code == 1
        printed = capsys.readouterr()
        assert printed.err.count(f"{bad.name}/run.json is damaged") == 1
        assert bad.name not in printed.out
    assert all(path.name in (tmp_path / "all.csv").read_text() for path in good)


def old_row(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """A run as written by version 0.1, whose row has no checksum, with a changed row."""
    row = json.loads((path / "summary.json").read_text())["row"]
    table = {**RunRecord.read(path / "run.json").table(), "provenance": {"version": 0}}
    (path / "run.json").write_text(json.dumps(table))
    edit(row)
    (path / "summary.json").write_text(json.dumps({"version": 1, "row": row}))


@pytest.mark.parametrize(
    "extra", [{"prior": [1]}, {"TEST_LOSS": 0}, {"net": "\ud800"}, {"net": {"a": 1}}], ids=lambda extra: str([*extra])
)
def test_an_odd_row_without_checksum_is_computed_again(extra: dict[str, Any], store: Path, tmp_path: Path) -> None:
    path = paths(store)[0]
    expected = read_row(path)
    assert expected is not None
    old_row(path, lambda row: row.update(extra))
    # The record of version 0.1 has no final count of types, so a measurement takes its place.
    measured = {"types_from": "measurement", "types_items": 50}
    assert read_row(path) == {**expected, **measured}
    assert Store(store).query("SELECT count(*) FROM runs")[1] == [(3,)]


def test_measurements_that_differ_in_case_from_a_column_are_named(store: Path) -> None:
    (paths(store)[0] / "results.json").write_text(json.dumps(sealed({"mig": {"values": {"TEST_LOSS": 0.1}}})))
    (problem,) = read_rows(store).problems.values()
    assert re.search(r"results\.json is damaged .*case", str(problem))


@pytest.mark.parametrize(
    "shape", ["abc", None, [[1]], [1.5, 2, 3], [1, 10**6, 10**6], [0], [-1], [10**9, 10**9, 10**9]]
)
def test_shapes_of_a_record_are_checked_before_memory_is_used(shape: Any, store: Path) -> None:
    path = paths(store)[0]
    table = RunRecord.read(path / "run.json").table()
    table["configuration"]["data"]["shape"] = shape
    (path / "run.json").write_text(json.dumps(sealed({**table, "id": identity_of(table["configuration"])})))
    with pytest.raises(VaescopeError):
        _ = Run.open(path).model


def test_a_newer_format_says_to_update(store: Path) -> None:
    path = paths(store)[0]
    table = RunRecord.read(path / "run.json").table()
    table["configuration"]["format"] = 2
    (path / "run.json").write_text(json.dumps(sealed(table)))
    with pytest.raises(RunError, match=r"newer version.*Update vaescope") as met:
        Run.open(path)
    assert not re.search("damaged|delete|restore", str(met.value), re.IGNORECASE)


def test_a_name_of_data_that_is_not_utf_8_is_listed_and_queried(store: Path) -> None:
    path = paths(store)[0]
    table = RunRecord.read(path / "run.json").table()
    table["configuration"]["data"]["name"] = "caf\udce9"
    (path / "run.json").write_text(json.dumps(sealed(table)))
    (path / "summary.json").unlink()
    row = read_row(path)
    assert row is not None
    assert row["data"] == r"caf\udce9"
    assert Store(store).query("SELECT count(*) FROM runs WHERE data LIKE 'caf%'")[1] == [(1,)]
