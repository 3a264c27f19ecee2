"""Trackers receive the start of a run, each of its rows once, and its end. The

real packages are tested in `integrations_real`; here small modules replace them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from vaescope.cli import app
from vaescope.errors import ConfigurationError, NonFiniteError, TrackerError, UnknownNameError
from vaescope.runs import TRACKERS, FitOptions, RecordedRow, Run, RunEnd, RunStart, Tracker, fit, fit_many
from vaescope.runs.record import STATE_FILE
from vaescope.runs.trackers import MLflow, TensorBoard, WandB
from vaescope.sweeps import Sweep, run_sweep
from vaescope.training import Member, Trainer
from vaescope.training.checkpoint import load_state

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


class Session:
    """The calls that a tracker received, and those at which it fails."""

    def __init__(self, start: RunStart, fails: tuple[str, ...] = ()) -> None:
        self.start, self.fails = start, fails
        self.rows: list[RecordedRow] = []
        self.end: RunEnd | None = None

    def log(self, row: RecordedRow) -> None:
        if "log" in self.fails and row.step == 15:
            raise OSError("the server is gone.")
        self.rows.append(row)

    def finish(self, end: RunEnd) -> None:
        if "finish" in self.fails:
            raise OSError("the server is gone.")
        assert self.end is None
        self.end = end


@dataclass(frozen=True)
class Notes(Tracker):
    """Keeps its sessions."""

    sessions: list[Session] = field(default_factory=list)
    fails: tuple[str, ...] = ()

    def start(self, run: RunStart) -> Session:
        if "start" in self.fails:
            raise OSError("the server is gone.")
        self.sessions.append(Session(run, self.fails))
        return self.sessions[-1]


def history(session: Session) -> list[dict[str, Any]]:
    return [{"step": row.step, "split": row.split, **row.values} for row in session.rows]


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, steps: int) -> Iterator[None]:
    """Ctrl-C arrives after `steps` steps."""
    advance = Trainer.advance

    def stopped(trainer: Trainer) -> Any:
        if trainer.state.step == steps:
            raise KeyboardInterrupt
        return advance(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopped)
        yield


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["alone", "stacked"])
def test_each_run_has_a_session_with_settings_rows_and_end(seeds: tuple[int, ...], tmp_path: Path) -> None:
    notes = Notes()
    runs = fit_many(DATA, [Member(3, seed=seed) for seed in seeds], FitOptions(runs=tmp_path, tracker=notes, **SMALL))
    assert {one.start.id for one in notes.sessions} == {run.id for run in runs}
    assert len(notes.sessions) == len(runs)
    for run in runs:
        (session,) = (one for one in notes.sessions if one.start.id == run.id)
        assert (session.start.path, session.start.step) == (run.path, 0)
        assert session.start.settings["seed"] == run.configuration.member.seed
        assert history(session) == run.history
        probe = run.last("probe")
        types = {kind: probe[kind] for kind in ("active", "mixed", "passive")}
        assert session.end == RunEnd("complete", run.path, 30, run.last("test")["loss"], types)


def test_a_run_that_is_reused_has_no_session(tmp_path: Path) -> None:
    fit(DATA, 3, runs=tmp_path, **SMALL)
    notes = Notes()
    fit(DATA, 3, runs=tmp_path, tracker=notes, **SMALL)
    assert notes.sessions == []


def test_an_interrupted_run_ends_its_session_and_continues_under_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    with interrupted(monkeypatch, 15), pytest.raises(KeyboardInterrupt):
        fit(DATA, 3, runs=tmp_path, tracker=notes, **SMALL)
    run = fit(DATA, 3, runs=tmp_path, tracker=notes, **SMALL)
    first, second = notes.sessions
    assert first.end is not None
    assert (first.end.status, first.end.step, second.start.step) == ("training", 15, 15)
    assert first.start.id == second.start.id == run.id
    assert history(first) + history(second) == run.history


def test_a_run_that_diverges_ends_as_failed_and_the_others_as_interrupted(tmp_path: Path) -> None:
    notes, members = Notes(), [Member(3, seed=seed, learning_rate=rate) for seed, rate in enumerate((1e-4, 1e6))]
    with pytest.raises(NonFiniteError):
        fit_many(DATA, members, FitOptions(runs=tmp_path, tracker=notes, **{**SMALL, "steps": 60}))
    ends = {one.start.settings["seed"]: one.end for one in notes.sessions}
    assert [ends[seed].status for seed in (0, 1)] == ["training", "failed"]  # type: ignore[union-attr]


def test_a_member_that_starts_again_in_a_sweep_shows_no_row_twice(tmp_path: Path) -> None:
    notes = Notes()
    settings = {"net": NET, "steps": 30, "batch": 16, "log_every": 1, "evaluate_every": 10, "monitor_every": 0}
    sweep = Sweep("digits", settings, {"latents": 2}, grid={"learning_rate": [1e-3, 1e30]})
    rows = run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=1, tracker=notes)
    good = Run.open(tmp_path / str(rows[0]["id"]))
    sessions = [one for one in notes.sessions if one.start.id == good.id]
    assert [one.end.status for one in sessions if one.end] == ["training", "complete"]
    shown = [(row.step, row.split) for one in sessions for row in one.rows]
    assert shown == [(row["step"], row["split"]) for row in good.history]
    assert sessions[1].start.step == (sessions[0].rows[-1].step if sessions[0].rows else 0)


def test_a_tracker_that_cannot_start_stops_before_training(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match=r"Notes .*start run \w{12}.*OSError: the server is gone\)"):
        fit(DATA, 3, runs=tmp_path, tracker=Notes(fails=("start",)), **SMALL)
    assert list(tmp_path.rglob(STATE_FILE)) == []
    assert fit(DATA, 3, runs=tmp_path, **SMALL).status == "complete"


def test_a_tracker_that_fails_stops_with_a_checkpoint_and_training_continues_without_it(tmp_path: Path) -> None:
    notes = Notes(fails=("log",))
    with pytest.raises(TrackerError, match=r"log step 15 of run \w{12}.*OSError.*without the tracker"):
        fit(DATA, 3, runs=tmp_path / "stopped", tracker=notes, **SMALL)
    (state,) = tmp_path.rglob(STATE_FILE)
    assert load_state(state).step == 15
    assert notes.sessions[0].end is not None
    run = fit(DATA, 3, runs=tmp_path / "stopped", **SMALL)
    assert run.history == fit(DATA, 3, runs=tmp_path / "whole", **SMALL).history


def test_a_session_that_cannot_be_closed_leaves_a_complete_run(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="close run"):
        fit(DATA, 3, runs=tmp_path, tracker=Notes(fails=("finish",)), **SMALL)
    (file,) = tmp_path.glob("*/run.json")
    assert Run.open(file.parent).status == "complete"


def test_ctrl_c_reaches_the_caller_also_if_a_session_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = pytest.warns(UserWarning, match="close run")
    with interrupted(monkeypatch, 15), failure, pytest.raises(KeyboardInterrupt):
        fit(DATA, 3, runs=tmp_path, tracker=Notes(fails=("finish",)), **SMALL)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_with_its_extra_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'vaescope\[{name}\]'"):
        fit(DATA, 3, runs=tmp_path, tracker=name, **SMALL)
    with pytest.raises(ConfigurationError, match=rf"pip install 'vaescope\[{name}\]'"):
        run_sweep(Sweep("digits"), runs=tmp_path, tracker={"name": name})
    assert list(tmp_path.iterdir()) == []


def test_another_object_or_name_is_not_a_tracker(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tracker must be one of mlflow, tensorboard, wandb"):
        fit(DATA, 3, runs=tmp_path, tracker=Member(3), **SMALL)
    with pytest.raises(UnknownNameError, match="Did you mean 'wandb'"):
        fit(DATA, 3, runs=tmp_path, tracker="wanbd", **SMALL)
    with pytest.raises(ConfigurationError, match="'mlflow' takes the options experiment, tracking_uri; got 'folder'"):
        fit(DATA, 3, runs=tmp_path, tracker={"name": "mlflow", "folder": "x"}, **SMALL)


@dataclass(frozen=True)
class Lines(Tracker):
    """Appends each number to a file."""

    file: str = "lines.jsonl"

    def start(self, run: RunStart) -> Lines:
        return self

    def log(self, row: RecordedRow) -> None:
        with Path(self.file).open("a") as file:
            file.write(json.dumps([row.run, row.step, row.numbers]) + "\n")

    def finish(self, end: RunEnd) -> None:
        """Nothing is open."""


@pytest.fixture
def lines() -> Iterator[None]:
    TRACKERS.register("lines", summary="appends to a file")(Lines)
    yield
    TRACKERS.unregister("lines")


@pytest.mark.usefixtures("lines")
def test_the_command_line_takes_a_tracker_and_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = ["--net", "mlp", "--set", "net.encoder_widths=[4]", "--set", "net.decoder_widths=[4]"]
    words = ["fit", "digits", *net, "--latents", "2", "--steps", "4", "--tracker", "lines", "--device", "cpu"]
    result = CliRunner().invoke(app, [*words, "--set", "tracker.file=own.jsonl", "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    sent = [json.loads(line) for line in Path("own.jsonl").read_text().splitlines()]
    assert {identity for identity, _, _ in sent} == {row["id"]}
    assert [numbers["test/loss"] for _, _, numbers in sent if "test/loss" in numbers][-1] == row["test_loss"]
    Path("sweep.toml").write_text('[data]\nname = "digits"\n[model]\nnet = "affine"\n[training]\nsteps = 4\n')
    command = ["sweep", "sweep.toml", "--workers", "1", "--device", "cpu", "--tracker", "lines", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    sent = [json.loads(line) for line in Path("lines.jsonl").read_text().splitlines()]
    assert {identity for identity, _, _ in sent} == {row["id"]}


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["fit", "digits", "--set", "tracker.project=x"], "tracker.project needs --tracker"),
        (["fit", "digits", "--set", "gap.variance=1"], "gap.variance .*fit"),
        (["fondue", "digits", "--set", "tracker.project=x"], "tracker.project .*fondue"),
    ],
)
def test_options_without_their_part_are_refused(words: list[str], facts: str) -> None:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ConfigurationError)
    with pytest.raises(ConfigurationError, match=facts):
        raise result.exception


def row_of(step: int, split: str = "train", **values: Any) -> RecordedRow:
    return RecordedRow("3f2a", Member(3), {}, step, split, values)


START = RunStart("3f2a", Path("runs/3f2a"), {"latents": 3, "net": "mlp"}, 0)
END = RunEnd("complete", START.path, 20, 1.5, {"active": 2, "mixed": 0, "passive": 1})


class FakeClient:
    """The part of MLflow's client that is used, with one store for all clients."""

    experiments: dict[str, str]
    runs: dict[str, Any]

    def __init__(self, tracking_uri: str | None = None) -> None:
        self.tracking_uri = tracking_uri

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, f"experiment {name}")

    def search_runs(self, experiments: list[str], filter_string: str, max_results: int) -> list[Any]:
        tag = filter_string.partition("= '")[2].rstrip("'")
        return [run for run in self.runs.values() if run.experiment in experiments and run.tags["vaescope.run"] == tag]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        own = f"mlflow's {len(self.runs)}"
        info, data = SimpleNamespace(run_id=own, status="RUNNING"), SimpleNamespace(metrics={}, params={})
        self.runs[own] = SimpleNamespace(experiment=experiment, name=run_name, tags=tags, info=info, data=data)
        return self.runs[own]

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        for one in metrics:
            self.runs[run].data.metrics.setdefault(one.key, []).append(one)
        self.runs[run].data.params |= {one.key: one.value for one in params}

    def get_metric_history(self, run: str, key: str) -> list[Any]:
        return self.runs[run].data.metrics[key]

    def update_run(self, run: str, status: str) -> None:
        self.runs[run].info.status = status

    def set_tag(self, run: str, name: str, value: str) -> None:
        self.runs[run].tags[name] = value

    def set_terminated(self, run: str, status: str) -> None:
        self.runs[run].info.status = status


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    class Client(FakeClient):
        """One store for each test."""

    Client.experiments, Client.runs = {}, {}
    module, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    vars(module)["MlflowClient"] = Client
    vars(entities)["Param"] = lambda key, value: SimpleNamespace(key=key, value=value)
    vars(entities)["Metric"] = lambda key, value, timestamp, step: SimpleNamespace(key=key, value=value, step=step)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return Client


def test_mlflow_finds_the_run_again_and_logs_no_step_twice(mlflow: type[FakeClient]) -> None:
    for status, first, steps in (("training", 0, (5, 10, 15)), ("complete", 10, (15, 20))):
        session = MLflow().start(RunStart(START.id, START.path, START.settings, first))
        for step in steps:
            session.log(row_of(step, loss=1.0 / step, types="aap"))
        session.log(row_of(steps[-1], "probe", active=2, types="aap", correlations=[0.5]))
        session.finish(RunEnd(status, START.path, steps[-1], 1.5, END.types))
    (run,) = mlflow.runs.values()
    assert (run.name, run.data.params) == ("3f2a", {"latents": "3", "net": "mlp"})
    metrics = {name: [(one.step, one.value) for one in values] for name, values in run.data.metrics.items()}
    assert metrics == {
        "train/loss": [(5, 0.2), (10, 0.1), (15, 1 / 15), (20, 0.05)],
        "probe/active": [(15, 2), (20, 2)],
    }
    assert run.info.status == "FINISHED"
    assert run.tags["vaescope.types"] == "2 active, 0 mixed, 1 passive"
    assert (run.tags["vaescope.path"], run.tags["vaescope.test_loss"]) == (str(START.path), "1.5")


@pytest.mark.parametrize(("status", "shown"), [("training", "KILLED"), ("failed", "FAILED"), ("complete", "FINISHED")])
def test_mlflow_shows_how_a_run_ended(status: str, shown: str, mlflow: type[FakeClient]) -> None:
    session = MLflow().start(START)
    session.finish(RunEnd(status, START.path, 0, None, {}))
    (run,) = mlflow.runs.values()
    assert run.info.status == shown
    assert "vaescope.test_loss" not in run.tags


def test_the_experiment_is_the_option_or_the_variable_or_a_default(
    mlflow: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    MLflow().start(START)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "from outside")
    MLflow().start(START)
    MLflow(experiment="own").start(START)
    assert list(mlflow.experiments) == ["vaescope", "from outside", "own"]


class FakeWandbRun:
    """A run of W&B that was logged to before up to a step."""

    def __init__(self, starting_step: int, **given: Any) -> None:
        self.starting_step, self.given = starting_step, given
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.summary: dict[str, Any] = {}
        self.exit_code: int | None = None

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.logged.append((step, numbers))

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> list[FakeWandbRun]:
    runs: list[FakeWandbRun] = []

    def init(**given: Any) -> FakeWandbRun:
        runs.append(FakeWandbRun(16 if runs else 0, **given))
        return runs[-1]

    module = ModuleType("wandb")
    vars(module).update(init=init, Settings=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return runs


def test_wandb_resumes_by_id_and_logs_no_step_twice(wandb: list[FakeWandbRun]) -> None:
    for status, steps in (("training", (5, 10, 15)), ("complete", (15, 20))):
        session = WandB().start(START)
        for step in steps:
            session.log(row_of(step, loss=1.0 / step))
        session.finish(RunEnd(status, START.path, steps[-1], 1.5, END.types))
    first, second = wandb
    for run in wandb:
        assert (run.given["id"], run.given["name"], run.given["resume"]) == ("3f2a", "3f2a", "allow")
        assert (run.given["config"], run.given["project"]) == (START.settings, "vaescope")
    assert first.logged == [(5, {"train/loss": 0.2}), (10, {"train/loss": 0.1}), (15, {"train/loss": 1 / 15})]
    assert second.logged == [(20, {"train/loss": 0.05})]
    assert (first.exit_code, second.exit_code) == (130, 0)
    assert second.summary["types"] == "2 active, 0 mixed, 1 passive"


def test_the_project_is_the_option_or_the_variable(wandb: list[FakeWandbRun], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "from outside")
    WandB().start(START)
    WandB(project="own", entity="team").start(START)
    assert [run.given["project"] for run in wandb] == ["from outside", "own"]
    assert wandb[1].given["entity"] == "team"


class FakeWriter:
    """Keeps events in memory, and writes the file by which the next session recognises this one."""

    made: list[FakeWriter]

    def __init__(self, folder: str, purge_step: int) -> None:
        self.folder, self.purge_step, self.file_writer = Path(folder), purge_step, self
        self.events: list[tuple[Any, ...]] = []
        self.is_open = True
        (self.folder / f"events.out.tfevents.{len(self.made)}").touch()
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.events.append((name, value, step))

    def add_text(self, name: str, text: str, step: int | None = None) -> None:
        self.events.append((name, text, step))

    def add_summary(self, summary: object) -> None:
        self.events.append(("hparams", summary))

    def flush(self) -> None:
        assert self.is_open

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> list[FakeWriter]:
    class Writer(FakeWriter):
        """One list for each test."""

    Writer.made = []
    module, summary = ModuleType("torch.utils.tensorboard"), ModuleType("torch.utils.tensorboard.summary")
    vars(module)["SummaryWriter"] = Writer
    vars(summary)["hparams"] = lambda settings, metrics: (settings, metrics, None)
    for fake in (ModuleType("tensorboard"), module, summary):
        monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return Writer.made


def test_tensorboard_writes_next_to_the_run_and_drops_steps_that_are_trained_again(
    tensorboard: list[FakeWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted(monkeypatch, 15), pytest.raises(KeyboardInterrupt):
        fit(DATA, 3, runs=tmp_path, tracker="tensorboard", **SMALL)
    run = fit(DATA, 3, runs=tmp_path, tracker=TensorBoard(), **SMALL)
    first, second = tensorboard
    assert first.folder == second.folder == run.path
    assert (first.purge_step, second.purge_step) == (1, 16)
    assert not first.is_open
    assert not second.is_open
    shown = [event for writer in tensorboard for event in writer.events if event[0] == "train/loss"]
    assert shown == [("train/loss", row["loss"], row["step"]) for row in run.history if row["split"] == "train"]
    assert [event[0] for event in second.events].count("settings") == 0
    (settings,) = (event[1] for event in first.events if event[0] == "settings")
    assert "| latents | 3 |" in settings
    assert "| status | complete |" in second.events[-1][1]
