"""Runs as the real packages record them: TensorBoard's events, MLflow's stores, W&B's offline folders."""

from __future__ import annotations

import json
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vaescope.runs import FitOptions, Run, fit, fit_many
from vaescope.sweeps import Sweep, run_sweep
from vaescope.training import Member, Trainer

DATA = np.random.default_rng(0).normal(size=(100, 8))
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
SMALL: dict[str, Any] = {
    "net": NET,
    "steps": 30,
    "batch": 16,
    "log_every": 5,
    "evaluate_every": 10,
    "monitor_every": 15,
    "device": "cpu",
    "progress": False,
}
MAX_WAITS = 300  # of a tenth of a second each
LEVELDB_BLOCK, LEVELDB_FULL, LEVELDB_LAST = 32768, 1, 4
Scalars = dict[str, list[tuple[int, float]]]


class Killed(BaseException):
    """Ends training as a kill does: without another checkpoint."""


@contextmanager
def stopped(monkeypatch: pytest.MonkeyPatch, steps: int, error: type[BaseException]) -> Iterator[None]:
    """Training ends after `steps` steps."""
    advance = Trainer.advance

    def stopping(trainer: Trainer) -> Any:
        if trainer.state.step == steps:
            raise error
        return advance(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopping)
        yield


def expected(run: Run) -> Scalars:
    """Every number of the history, under 'split/name'."""
    found: Scalars = {}
    for row in run.history:
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float):
                found.setdefault(f"{row['split']}/{name}", []).append((row["step"], value))
    return found


def assert_shown(shown: Scalars, run: Run) -> None:
    """The numbers are those of the history, each once; single precision is enough for a plot."""
    wanted = expected(run)
    assert shown.keys() == wanted.keys()
    assert {"train/loss", "test/loss", "probe/active"} <= shown.keys()
    for name, values in wanted.items():
        assert [step for step, _ in shown[name]] == [step for step, _ in values]
        assert [value for _, value in shown[name]] == pytest.approx([value for _, value in values], rel=1e-6)


def interrupted_and_resumed(tracker: str, folder: Path, patch: pytest.MonkeyPatch, error: type[BaseException]) -> Run:
    """A run with a checkpoint at step 10 that ends at step 20, and is resumed; a kill leaves ten steps to repeat."""
    with stopped(patch, 10, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        fit(DATA, 3, runs=folder, tracker=tracker, **SMALL)
    wait_for_next_second()
    with stopped(patch, 20, error), pytest.raises(error):
        fit(DATA, 3, runs=folder, tracker=tracker, **SMALL)
    wait_for_next_second()
    return fit(DATA, 3, runs=folder, tracker=tracker, **SMALL)


def wait_for_next_second() -> None:
    """W&B names the folder of a session by the second in which it begins."""
    time.sleep(1 - time.time() % 1)


def tensorboard_scalars(folder: Path) -> Scalars:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}


@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed])
def test_tensorboard_reads_every_step_once(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    run = interrupted_and_resumed("tensorboard", tmp_path, monkeypatch, error)
    assert_shown(tensorboard_scalars(run.path), run)


def test_tensorboard_shows_settings_and_how_the_run_ended(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fit(DATA, 3, runs=tmp_path, tracker="tensorboard", **SMALL)
    events = EventAccumulator(str(run.path))
    events.Reload()
    texts = {tag: events.Tensors(f"{tag}/text_summary")[-1].tensor_proto.string_val[0] for tag in ("settings", "end")}
    assert b"| latents | 3 |" in texts["settings"]
    assert b"| status | complete |" in texts["end"]
    assert events.PluginTagToContent("hparams")


def test_every_run_of_a_sweep_over_processes_has_its_own_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    settings = {"net": NET, "steps": 20, "batch": 16, "log_every": 5, "evaluate_every": 10, "monitor_every": 10}
    sweep = Sweep("digits", settings, {"latents": 2}, grid={"batch": [8, 16], "seed": [0, 1]})
    rows = run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=2, tracker="tensorboard")
    assert len(rows) == 4
    for row in rows:
        run = Run.open(tmp_path / str(row["id"]))
        assert_shown(tensorboard_scalars(run.path), run)


def mlflow_runs(uri: str) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("vaescope")
    return {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def mlflow_scalars(uri: str, run: Any) -> Scalars:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    found = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: sorted((one.step, one.value) for one in values) for name, values in found.items()}


@pytest.fixture(params=["file", "sqlite"])
def mlflow_uri(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    uri = (tmp_path / "mlruns").as_uri() if request.param == "file" else f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed])
def test_mlflow_continues_one_run_with_every_step_once(
    error: type[BaseException], mlflow_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted_and_resumed("mlflow", tmp_path / "runs", monkeypatch, error)
    ((name, kept),) = mlflow_runs(mlflow_uri).items()
    assert name == run.id
    assert_shown(mlflow_scalars(mlflow_uri, kept), run)
    assert kept.info.status == "FINISHED"
    assert kept.data.params["latents"] == "3"
    assert kept.data.tags["vaescope.path"] == str(run.path)


def test_members_of_an_ensemble_have_their_own_runs_in_mlflow(mlflow_uri: str, tmp_path: Path) -> None:
    members = [Member(3, seed=seed) for seed in range(3)]
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path / "runs", tracker="mlflow", **SMALL))
    shown = mlflow_runs(mlflow_uri)
    assert shown.keys() == {run.id for run in runs}
    for run in runs:
        assert_shown(mlflow_scalars(mlflow_uri, shown[run.id]), run)


def wandb_records(folder: Path) -> list[Any]:
    """The records of an offline run that has ended, once W&B's own process has written them all."""
    (file,) = folder.glob("*.wandb")
    for _ in range(MAX_WAITS):
        found = written_records(file)
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{file} has no record of its end, but {len(found)} others.")


def written_records(file: Path) -> list[Any]:
    """The records in a file of W&B: a LevelDB log after a header."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, whole, found = file.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        if LEVELDB_BLOCK - place % LEVELDB_BLOCK < 7:  # the rest of a block is too short for a header
            place += LEVELDB_BLOCK - place % LEVELDB_BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (LEVELDB_FULL, LEVELDB_LAST):
            found.append(Record())
            found[-1].ParseFromString(whole)
            whole = b""
    return found


def wandb_scalars(records: list[Any]) -> Scalars:
    found: Scalars = {}
    for record in records:
        if record.WhichOneof("record_type") != "history":
            continue
        values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        step = values.get("_step", record.history.step.num)
        for name, value in values.items():
            if not name.startswith("_"):
                found.setdefault(name, []).append((step, value))
    return found


@pytest.fixture
def wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("wandb").teardown()  # it has read the variables of the previous test
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return tmp_path / "wandb"


def test_wandb_keeps_a_run_offline(wandb_offline: Path, tmp_path: Path) -> None:
    run = fit(DATA, 3, runs=tmp_path / "runs", tracker="wandb", **SMALL)
    (folder,) = wandb_offline.glob(f"offline-run-*-{run.id}")
    records = wandb_records(folder)
    assert_shown(wandb_scalars(records), run)
    (begun,) = (record.run for record in records if record.WhichOneof("record_type") == "run")
    assert (begun.run_id, begun.display_name, begun.project) == (run.id, run.id, "vaescope")
    assert {item.key: json.loads(item.value_json) for item in begun.config.update}["latents"] == 3
    (end,) = (record.exit for record in records if record.WhichOneof("record_type") == "exit")
    assert end.exit_code == 0


def test_wandb_sessions_of_a_resumed_run_have_one_id_and_every_step_once(
    wandb_offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted_and_resumed("wandb", tmp_path / "runs", monkeypatch, KeyboardInterrupt)
    shown: Scalars = {}
    sessions = [wandb_records(folder) for folder in wandb_offline.glob("offline-run-*")]
    assert len(sessions) == 3
    for records in sessions:
        assert {one.run.run_id for one in records if one.WhichOneof("record_type") == "run"} == {run.id}
        for name, values in wandb_scalars(records).items():
            shown[name] = sorted(shown.get(name, []) + values)
    assert_shown(shown, run)


def test_members_of_an_ensemble_have_their_own_runs_in_wandb(wandb_offline: Path, tmp_path: Path) -> None:
    members = [Member(3, seed=seed) for seed in range(2)]
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path / "runs", tracker="wandb", **SMALL))
    for run in runs:
        (folder,) = wandb_offline.glob(f"offline-run-*-{run.id}")
        assert_shown(wandb_scalars(wandb_records(folder)), run)


def test_an_error_of_a_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from vaescope.errors import TrackerError

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://nowhere")
    with warnings.catch_warnings(), pytest.raises(TrackerError, match=r"MLflow must be able to start run \w{12}"):
        fit(DATA, 3, runs=tmp_path, tracker="mlflow", **SMALL)
