"""Training from the weights of another run, and training a run longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError, DataError, NonFiniteError, RunError
from vaescope.models import LatentModule
from vaescope.objectives import Annealed, Beta, Factor
from vaescope.runs import FitOptions, Run, Store, checkpointing, fit, fit_in_memory, fit_many, prune, resume, summary
from vaescope.training import Member, Trainer
from vaescope.training.layout import Weights, persistent_buffers

DATA = np.random.default_rng(0).normal(size=(100, 8))
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
SMALL: dict[str, Any] = {
    "batch": 16,
    "learning_rate": 1e-3,
    "log_every": 5,
    "evaluate_every": 10,
    "monitor_every": 10,
    "device": "cpu",
}


def trained(folder: Path, steps: int = 20, latents: int = 3, **other: Any) -> Run:
    return fit(DATA, latents, steps=steps, runs=folder, **{"net": NET, **SMALL, **other})


def files(run: Run) -> list[bytes]:
    return [(run.path / name).read_bytes() for name in ("model.safetensors", "state.safetensors", "history.jsonl")]


def same(ours: nn.Module, theirs: nn.Module) -> bool:
    first, second = ours.state_dict(), theirs.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("parent"))


def by_hand(model: LatentModule, run: Run) -> LatentModule:
    """The settings of a run, trained by steps of the trainer from the parameters and buffers of a model."""
    configuration = run.configuration
    data, held_out = configuration.split.of(open_dataset(DATA))
    trainer = Trainer(configuration.architecture, [configuration.member], configuration.plan, data, held_out)
    state = trainer.state.copy()
    vector = trainer.ensemble.layout.pack(Weights(dict(model.named_parameters())))
    state.parameters.copy_(vector[None])
    for name, buffer in persistent_buffers(model).items():
        state.buffers[name].copy_(buffer[None])
    trainer.load(state)
    while not trainer.finished:
        trainer.advance()
    return trainer.model()


def test_training_starts_from_the_weights_of_a_run(parent: Run, tmp_path: Path) -> None:
    child = fit(DATA, start=parent, steps=10, seed=5, objective=Beta(4.0), runs=tmp_path, **SMALL)
    assert same(child.model, by_hand(parent.model, child))
    assert child.configuration.architecture == parent.configuration.architecture
    assert child.configuration.member == Member(3, Beta(4.0), 1e-3, 5)
    assert not same(child.model, fit(DATA, 3, net=NET, steps=10, seed=5, runs=tmp_path, **SMALL).model)


def test_training_starts_from_the_running_statistics_too(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32), dtype=np.uint8)
    net = {"name": "resnet", "width": 2, "widest": 4, "smallest": 16}
    own: dict[str, Any] = {"steps": 2, "batch": 8, "device": "cpu", "runs": tmp_path, "held_out": 0}
    first = fit(images, 2, net=net, **own)
    second = fit(images, start=first, **{**own, "steps": 1})
    counts = [
        {int(value) for name, value in run.model.state_dict().items() if "num_batches_tracked" in name}
        for run in (first, second)
    ]
    assert counts == [{2}, {3}]


def test_the_start_is_a_run_an_id_or_a_folder(parent: Run) -> None:
    own = {**SMALL, "steps": 5, "runs": parent.path.parent}
    runs = [fit(DATA, start=start, **own) for start in (parent, parent.id[:6], parent.path, str(parent.path))]
    assert len({run.id for run in runs}) == 1
    assert runs[0].id != fit(DATA, 3, net=NET, **own).id


def test_the_start_is_part_of_the_id_and_of_the_record(parent: Run, tmp_path: Path) -> None:
    other = trained(tmp_path, seed=1)
    runs = [fit(DATA, start=start, steps=5, runs=tmp_path, **SMALL) for start in (parent, other)]
    assert runs[0].id != runs[1].id
    for run, start in zip(runs, (parent, other), strict=True):
        origin = Run.open(run.path).provenance.started_from
        assert origin is not None
        assert (origin.kind, origin.run) == ("warm start", start.id)
        assert Run.open(run.path).configuration.start == start.id
        assert summary(run)["started_from"] == start.id
    assert "start" not in parent.record.configuration


def test_members_that_train_together_start_from_the_same_weights(parent: Run, tmp_path: Path) -> None:
    members = [Member(3, Beta(strength), 1e-3) for strength in (1.0, 4.0)]
    options = {name: value for name, value in SMALL.items() if name != "learning_rate"}
    runs = fit_many(DATA, members, FitOptions(start=parent, steps=5, runs=tmp_path, **options))
    for member, run in zip(members, runs, strict=True):
        assert run.configuration.member == member
        for name, value in by_hand(parent.model, run).state_dict().items():
            torch.testing.assert_close(run.model.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_weights_keep_their_precision(tmp_path: Path) -> None:
    exact = trained(tmp_path, 2, precision="float64")
    child = fit(DATA, start=exact, steps=1, precision="float64", runs=tmp_path, **{**SMALL, "learning_rate": 1e-300})
    assert same(child.model, exact.model)
    rounded = fit(DATA, start=exact, steps=1, runs=tmp_path, **{**SMALL, "learning_rate": 1e-30})
    assert all(value.dtype == torch.float32 for value in rounded.model.parameters())


def test_an_interrupted_training_from_weights_resumes(
    parent: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(folder: str, **other: Any) -> Run:
        return fit(DATA, start=parent, steps=20, runs=tmp_path / folder, **SMALL, **other)

    whole = call("whole")
    for folder, rows in (("before", 0), ("after", 2)):
        with pytest.raises(KeyboardInterrupt):
            interrupted(monkeypatch, rows, call, folder)
        call(folder)
        again = Run.open(tmp_path / folder / whole.id)
        assert files(again) == files(whole)
        assert again.provenance.started_from == whole.provenance.started_from


def interrupted(monkeypatch: pytest.MonkeyPatch, rows: int, call: Any, *arguments: Any) -> None:
    """Ctrl-C arrives in a call after rows of the history."""
    left = [rows]

    def advance(trainer: Trainer, real: Any = Trainer.advance) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", advance)
        call(*arguments)


def test_a_critic_and_an_optimiser_start_again(tmp_path: Path) -> None:
    objective = Factor(2.0, critic_widths=(8,))
    first = trained(tmp_path, 10, objective=objective)
    child = fit(DATA, start=first, objective=objective, steps=5, runs=tmp_path, **SMALL)
    fresh = fit(DATA, 3, net=NET, objective=objective, steps=5, runs=tmp_path, **SMALL)
    assert child.history[0]["step"] == 5
    assert not same(child.model, fresh.model)


def test_a_pruned_run_is_trained_from_its_weights(parent: Run, tmp_path: Path) -> None:
    small = prune(parent, DATA, keep=[0, 2]).run
    child = fit(DATA, start=small, steps=5, runs=tmp_path, **SMALL)
    assert child.configuration.member.latents == 2
    assert same(child.model, by_hand(small.model, child))
    with pytest.raises(RunError, match=r"pruned from run .*start="):
        resume(small, 40)


def test_training_in_memory_starts_from_weights_too(parent: Run, tmp_path: Path) -> None:
    options = {name: value for name, value in SMALL.items() if name != "learning_rate"}
    found = fit_in_memory(DATA, Member(3, learning_rate=1e-3), FitOptions(start=parent, steps=5, **options))
    assert same(found.model, fit(DATA, start=parent, steps=5, runs=tmp_path, **SMALL).model)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"latents": 4}, r"latents 3 in the run and 4 here"),
        ({"net": "mlp"}, r"net .*\(16,\).* in the run and .*\(400, 400\)"),
        (
            {"model": "autoencoder", "posterior": "deterministic"},
            r"model vae in the run and autoencoder here; posterior",
        ),
        ({"likelihood": "gaussian"}, r"likelihood .*True.* in the run and .*False.* here"),
        ({"data": DATA[:, :7]}, r"shape of an item \(8,\) in the run and \(7,\) here"),
    ],
)
def test_a_start_of_another_model_is_refused(parent: Run, tmp_path: Path, other: dict[str, Any], words: str) -> None:
    given = {"data": DATA, "start": parent, "steps": 5, "runs": tmp_path, **SMALL, **other}
    with pytest.raises(ConfigurationError, match=words):
        fit(**given)
    assert not list(tmp_path.iterdir())


def test_a_start_without_a_model_is_refused(parent: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="No run in"):
        fit(DATA, start="3f2a", runs=tmp_path, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 1, trained, tmp_path)
    with pytest.raises(RunError, match="must be complete"):
        fit(DATA, start=Store(tmp_path).path(parent.id), steps=5, runs=tmp_path, **SMALL)


@pytest.mark.parametrize("steps", [20, 25], ids=["at an evaluation", "between evaluations"])
@pytest.mark.parametrize("objective", [Beta(2.0, warm_up=30), Annealed(capacity=5.0, steps=30)])
def test_a_run_that_is_trained_longer_is_the_run_trained_as_long_from_the_start(
    steps: int, objective: Any, tmp_path: Path
) -> None:
    short = trained(tmp_path / "a", steps, objective=objective)
    before = files(short)
    longer = resume(short, 40)
    once = trained(tmp_path / "b", 40, objective=objective)
    assert longer.id == once.id != short.id
    assert files(longer) == files(once)
    assert files(short) == before
    origin = Run.open(longer.path).provenance.started_from
    assert origin is not None
    assert (origin.kind, origin.run, origin.step) == ("resumed", short.id, steps)


def test_a_run_that_ends_between_two_rows_keeps_its_last_row(tmp_path: Path) -> None:
    longer = resume(trained(tmp_path / "a", 22), 40)
    once = trained(tmp_path / "b", 40)
    assert longer.id == once.id
    assert same(longer.model, once.model)
    steps = [[row["step"] for row in run.history if row["split"] == "train"] for run in (longer, once)]
    assert steps == [[5, 10, 15, 20, 22, 25, 30, 35, 40], [5, 10, 15, 20, 25, 30, 35, 40]]
    assert [[row for row in run.history if row["split"] == "test"] for run in (longer, once)] == [
        [row for row in once.history if row["split"] == "test"]
    ] * 2


def test_a_member_of_an_ensemble_is_trained_longer_alone(tmp_path: Path) -> None:
    members = [Member(latents, learning_rate=1e-3) for latents in (2, 3)]
    options = FitOptions(
        net=NET, steps=20, runs=tmp_path, **{name: value for name, value in SMALL.items() if name != "learning_rate"}
    )
    longer = resume(fit_many(DATA, members, options)[0], 40)
    for name, value in trained(tmp_path / "once", 40, latents=2).model.state_dict().items():
        torch.testing.assert_close(longer.model.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_an_interrupted_run_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 2, trained, tmp_path)
    assert files(resume(whole.id, runs=tmp_path, data=DATA)) == files(whole)


def test_an_interrupted_run_is_trained_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 2, trained, tmp_path)
    (short,) = tmp_path.glob("[!.]*")
    assert files(resume(short, 40, data=DATA)) == files(trained(tmp_path / "once", 40))


def test_an_interrupted_ensemble_is_not_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member(latents, learning_rate=1e-3) for latents in (2, 3)]
    options = FitOptions(net=NET, steps=20, runs=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 2, fit_many, DATA, members, options)
    first = next(tmp_path.glob("[!.]*"))
    with pytest.raises(RunError, match="together with others"):
        resume(first, data=DATA)


def test_a_run_that_started_from_weights_is_finished_and_trained_longer(
    parent: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(folder: Path, steps: int) -> Run:
        return fit(DATA, start=parent, steps=steps, runs=folder, **SMALL)

    once = call(tmp_path, 40)
    assert files(resume(call(tmp_path, 20), 40)) == files(once)
    # Interrupted before its first checkpoint: it starts again from the weights of the parent, which it finds by its id.
    monkeypatch.setattr(checkpointing, "save_state", lambda *arguments: None)
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, 1, call, parent.path.parent, 40)
    monkeypatch.undo()
    assert files(resume(once.id, runs=parent.path.parent, data=DATA)) == files(once)


def test_the_trained_run_is_returned_when_nothing_is_left_to_do(parent: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = resume(parent, 30)
    monkeypatch.setattr(Trainer, "advance", None)
    assert resume(parent) == parent
    assert resume(parent, 30) == longer
    assert resume(longer, 30) == longer


def test_training_backwards_or_on_other_data_is_refused(parent: Run) -> None:
    with pytest.raises(ConfigurationError, match="at least 20"):
        resume(parent, 10)
    with pytest.raises(DataError, match="are others"):
        resume(parent, 50, data=DATA[::-1].copy())


def test_a_run_that_diverged_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError):
        trained(tmp_path, learning_rate=1e30)
    (path,) = tmp_path.glob("[!.]*")
    with pytest.raises(RunError, match="diverged"):
        resume(path, 40, data=DATA)


def test_a_run_without_its_state_is_not_trained_longer(tmp_path: Path) -> None:
    run = trained(tmp_path, 5)
    (run.path / "state.safetensors").unlink()
    with pytest.raises(RunError, match=r"state\.safetensors must hold"):
        resume(run, 10)


def test_rows_of_a_longer_training_are_sent(tmp_path: Path) -> None:
    rows: list[tuple[str, int]] = []
    longer = resume(trained(tmp_path), 30, on_row=lambda row: rows.append((row.run, row.step)))
    assert {run for run, _ in rows} == {longer.id}
    assert {step for _, step in rows} == {25, 30}


def test_intervals_of_rows_are_those_of_the_run(tmp_path: Path) -> None:
    short = fit(DATA, 3, net=NET, steps=60, batch=16, device="cpu", runs=tmp_path)
    plan = resume(short, 120).configuration.plan
    assert plan == replace(short.configuration.plan, steps=120)
