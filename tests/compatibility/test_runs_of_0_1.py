"""Runs that version 0.1.0 made: they open, resume and keep their ids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import vaescope as vs
from vaescope.cli import app

STORE = Path(__file__).parent / "store_0_1"
COMPLETE, CONDITIONAL, CRITIC = "f5dced05642d", "a5fa8913b7db", "d6719b68d6de"
FAILED, PRUNED, INTERRUPTED = "6274250fac94", "732126b2b254", "3a0fb00fab51"
ENSEMBLE = {"1217f6956f11", "6bcb46587e1c", "e3d79dfd9c8c", "e8eddd6394fb"}
MLP = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
EVERY_RUN = sorted(STORE.glob("*/*/run.json"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORE, tmp_path / "store"))


def members(latents: list[int], seeds: list[int]) -> list[vs.Member]:
    return [vs.Member(size, vs.objectives.Beta(1.0), 1e-2, seed) for size in latents for seed in seeds]


def command(*words: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def weights(run: vs.Run) -> dict[str, torch.Tensor]:
    return dict(run.model.state_dict())


@pytest.mark.parametrize("file", EVERY_RUN, ids=lambda file: file.parent.name)
def test_a_configuration_read_and_written_again_keeps_its_id_and_every_field(file: Path) -> None:
    run = vs.Run.open(file.parent)
    assert run.configuration.id == run.id == file.parent.name
    assert json.loads(json.dumps(run.configuration.plain())) == json.loads(file.read_text())["configuration"]


@pytest.mark.parametrize("identity", [COMPLETE, CONDITIONAL, CRITIC, PRUNED])
def test_a_complete_run_opens_with_the_saved_weights(identity: str) -> None:
    run = vs.Run.open(STORE / "runs" / identity)
    assert run.status == "complete"
    kept = load_file(STORE / "runs" / identity / "model.safetensors")
    assert {name: value.tolist() for name, value in weights(run).items()} == {
        name: value.tolist() for name, value in kept.items()
    }


def test_complete_runs_are_found_and_not_retrained(store: Path) -> None:
    asked = {"net": MLP, "learning_rate": 1e-2, "runs": store / "runs", "progress": False}
    before = (store / "runs" / COMPLETE / "history.jsonl").read_bytes()
    assert vs.fit("digits", 3, steps=100, **asked).id == COMPLETE
    told = vs.fit("digits", 3, model="conditional", objective="beta_tc", steps=60, **asked)
    critic = vs.fit("digits", 2, objective={"name": "factor", "critic_widths": [8]}, steps=60, **asked)
    assert (told.id, critic.id) == (CONDITIONAL, CRITIC)
    assert (store / "runs" / COMPLETE / "history.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("identity", "asked"),
    [
        (COMPLETE, {"latents": 3, "steps": 100}),
        (CONDITIONAL, {"latents": 3, "model": "conditional", "objective": "beta_tc", "steps": 60}),
        (CRITIC, {"latents": 2, "objective": {"name": "factor", "critic_widths": [8]}, "steps": 60}),
    ],
)
def test_training_gives_the_weights_of_0_1(identity: str, asked: dict[str, object], tmp_path: Path) -> None:
    run = vs.fit("digits", net=MLP, learning_rate=1e-2, runs=tmp_path, progress=False, **asked)
    assert run.id == identity
    for name, kept in load_file(STORE / "runs" / identity / "model.safetensors").items():
        # Other machines round differently; on one machine the weights are equal.
        torch.testing.assert_close(weights(run)[name], kept, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::vaescope.errors.CollapseWarning")
@pytest.mark.parametrize(
    ("folder", "latents", "seeds", "ids"),
    [("interrupted", [2], [7], {INTERRUPTED}), ("ensemble", [1, 2], [5, 6], ENSEMBLE)],
)
def test_interrupted_runs_resume_where_they_stopped(
    store: Path, folder: str, latents: list[int], seeds: list[int], ids: set[str]
) -> None:
    states = list((store / folder).rglob("state.safetensors"))
    first = json.loads((states[0].parent / "history.jsonl").read_text().splitlines()[0])
    runs = vs.fit_many(
        "digits", members(latents, seeds), vs.FitOptions(net=MLP, steps=1200, runs=store / folder, progress=False)
    )
    assert {run.id for run in runs} == ids
    # The rows from before the interruption are still there: training resumed and did not start again.
    assert first["loss"] in [row["loss"] for run in runs for row in run.history if row["split"] == "train"]
    for run in runs:
        for name, kept in load_file(STORE / "uninterrupted" / run.id / "model.safetensors").items():
            torch.testing.assert_close(weights(run)[name], kept, rtol=1e-2, atol=1e-3)


def test_a_failed_run_still_says_why() -> None:
    run = vs.Run.open(STORE / "runs" / FAILED)
    assert run.status == "failed"
    assert run.failure is not None
    assert (run.failure["term"], run.failure["step"]) == ("gradient_norm", 0)


def test_a_pruned_run_names_the_run_it_came_from() -> None:
    pruned = vs.Run.open(STORE / "runs" / PRUNED).configuration.pruned
    assert pruned is not None
    assert (pruned.run, pruned.kept) == (COMPLETE, (0, 1))


def test_a_search_is_found_without_training(store: Path) -> None:
    found = vs.fondue("digits", seeds=2, largest=12, period=100, net=MLP, learning_rate=1e-2, runs=store / "runs")
    kept = json.loads((STORE / "runs" / "fondue-067868fd9c5b" / "fondue.json").read_text())
    assert found.trained_steps == 0
    assert (found.latents, found.mean) == (kept["latents"], kept["mean"])
    assert [path.name for path in (store / "runs").glob("fondue-*")] == ["fondue-067868fd9c5b"]


def test_a_sweep_is_found_with_its_measurements(store: Path) -> None:
    before = {file: file.read_bytes() for file in (store / "sweep").rglob("*.safetensors")}
    rows = command("sweep", str(store / "study.toml"), "--runs", str(store / "sweep"))
    assert {row["id"] for row in rows} == {path.parent.name for path in (STORE / "sweep").glob("*/run.json")}
    kept = {path.parent.name: json.loads(path.read_text()) for path in (STORE / "sweep").glob("*/results.json")}
    assert {row["id"]: row["mig"] for row in rows} == {
        identity: results["mig"]["values"]["mig"] for identity, results in kept.items()
    }
    assert {file: file.read_bytes() for file in before} == before


def test_every_run_is_listed(store: Path) -> None:
    rows = {row["id"]: row["status"] for row in command("runs", "--runs", str(store / "runs"))}
    complete = dict.fromkeys([COMPLETE, CONDITIONAL, CRITIC, PRUNED], "complete")
    assert rows == {**complete, FAILED: "failed"}
