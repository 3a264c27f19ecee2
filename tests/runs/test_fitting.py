"""Fit and fit_many: train once, resume exactly, train equally together and alone, and name failures."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.errors import ConfigurationError, NonFiniteError, RunError
from vaescope.likelihoods import Bernoulli, Gaussian
from vaescope.models import Architecture
from vaescope.nets import MLP, Conv
from vaescope.objectives import Beta
from vaescope.runs import FitOptions, Run, checkpointing, choose_device, fit, fit_many
from vaescope.runs import fitting as module
from vaescope.runs.folders import ENSEMBLES
from vaescope.runs.rows import read_rows
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
    "device": "cpu",
}


def weights(run: Run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def same(run: Run, other: Run) -> bool:
    ours, theirs = weights(run), weights(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def interrupt_after(patch: pytest.MonkeyPatch, calls: int, owner: Any, name: str) -> None:
    """Ctrl-C arrives in the call after `calls` calls."""
    function, left = getattr(owner, name), [calls]

    def interrupted(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return function(*arguments)

    patch.setattr(owner, name, interrupted)


def test_every_option_is_a_keyword_of_fit_with_the_same_default() -> None:
    keywords = inspect.signature(fit).parameters
    for option in dataclasses.fields(FitOptions):
        assert keywords[option.name].default == option.default
        assert keywords[option.name].kind is inspect.Parameter.KEYWORD_ONLY


def test_a_mac_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="'mps' needs a Mac"):
        choose_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("mps") == "mps"
    plan = FitOptions(precision="float64").plan(100)
    with pytest.raises(ConfigurationError, match="no float64"):
        Trainer(Architecture(net="mlp"), [Member(3)], plan, from_array(DATA), device="mps")


def test_every_keyword_reaches_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[FitOptions] = []
    monkeypatch.setattr(module, "fit_many", lambda data, members, options: received.append(options) or [None])
    given = {
        "model": "autoencoder",
        "net": "mlp",
        "posterior": "deterministic",
        "prior": "standard",
        "likelihood": "gaussian",
        "initialisation": "torch",
        "optimiser": "adagrad",
        "batch": 2,
        "epochs": 3.5,
        "precision": "float64",
        "log_every": 4,
        "evaluate_every": 8,
        "evaluation_items": 5,
        "monitor_every": 12,
        "monitor_items": 6,
        "held_out": 7,
        "split_seed": 9,
        "start": "3f2a",
        "overcomplete": True,
        "device": "cpu",
        "compile": False,
        "runs": tmp_path,
        "progress": False,
        "checkpoint_seconds": 1.5,
        "on_row": print,
        "tracker": "tensorboard",
    }
    fit(DATA, 2, **given)
    assert received == [FitOptions(**given)]
    assert {option.name for option in dataclasses.fields(FitOptions)} == {*given, "steps"}


def test_the_same_call_trains_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fit(DATA, 3, runs=tmp_path, **SMALL)
    before = (run.path / "model.safetensors").stat().st_mtime_ns
    monkeypatch.setattr(Trainer, "advance", None)
    again = fit(DATA, 3, runs=tmp_path, **SMALL)
    assert again == run
    assert (run.path / "model.safetensors").stat().st_mtime_ns == before


def test_a_complete_run_has_all_of_its_files(tmp_path: Path) -> None:
    run = fit(DATA, 3, runs=tmp_path, **SMALL)
    assert run.status == "complete"
    assert run.path == tmp_path / run.id
    assert run.id == run.configuration.id
    assert [row["step"] for row in run.history if row["split"] == "train"] == [5, 10, 15, 20, 25, 30]
    assert [row["step"] for row in run.history if row["split"] == "test"] == [10, 20, 30]
    assert run.last("test")["step"] == 30
    assert run.provenance.device == "cpu"
    assert set(run.provenance.versions) == {"vaescope", "torch", "python"}


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    first = fit(DATA, 3, seed=1, runs=tmp_path / "a", **SMALL)
    again = fit(DATA, 3, seed=1, runs=tmp_path / "b", **SMALL)
    other = fit(DATA, 3, seed=2, runs=tmp_path / "a", **SMALL)
    assert same(first, again)
    assert first.history == again.history
    assert first.id == again.id != other.id
    assert not same(first, other)


def test_the_order_of_members_does_not_matter(tmp_path: Path) -> None:
    members = [Member(latents, seed=seed) for latents, seed in ((2, 0), (3, 1), (2, 2))]
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path / "a", **SMALL))
    backwards = fit_many(DATA, members[::-1], FitOptions(runs=tmp_path / "b", **SMALL))
    assert [run.id for run in runs] == [run.id for run in backwards[::-1]]
    assert all(same(run, other) for run, other in zip(runs, backwards[::-1], strict=True))


def test_a_member_given_twice_trains_once(tmp_path: Path) -> None:
    runs = fit_many(DATA, [Member(3), Member(3, seed=1), Member(3)], FitOptions(runs=tmp_path, **SMALL))
    assert runs[0] == runs[2] != runs[1]
    assert len(list(tmp_path.glob("*/run.json"))) == 2


def test_members_may_differ_in_latents_strength_and_learning_rate(tmp_path: Path) -> None:
    members = [Member(2, Beta(4.0)), Member(5, learning_rate=1e-3), Member(8, seed=9)]
    runs = fit_many(DATA, members, FitOptions(runs=tmp_path, **SMALL))
    assert [run.configuration.member for run in runs] == members
    assert [run.model.encode(torch.zeros(1, 8)).mean.shape[1] for run in runs] == [2, 5, 8]


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("float64", 1e-9)])
def test_members_trained_together_equal_those_trained_alone(precision: str, tolerance: float, tmp_path: Path) -> None:
    members = [Member(2, Beta(2.0), 1e-3), Member(4, Beta(0.5), 1e-3, 1), Member(3, seed=2, learning_rate=1e-3)]
    options = {**SMALL, "precision": precision}
    together = fit_many(DATA, members, FitOptions(runs=tmp_path / "together", **options))
    assert (tmp_path / "together" / ENSEMBLES).is_dir()
    for run, member in zip(together, members, strict=True):
        (alone,) = fit_many(DATA, [member], FitOptions(runs=tmp_path / "alone", **options))
        assert alone.id == run.id
        for name, value in weights(alone).items():
            torch.testing.assert_close(weights(run)[name], value, rtol=0, atol=tolerance)
        states = [load_state(one.path / "state.safetensors") for one in (run, alone)]
        torch.testing.assert_close(states[0].parameters, states[1].parameters, rtol=0, atol=tolerance)
        for ours, theirs in zip(run.history, alone.history, strict=True):
            for name in ("split", "types"):
                assert ours.pop(name, None) == theirs.pop(name, None)
            for name in ("correlations", "rates"):
                assert ours.pop(name, []) == pytest.approx(theirs.pop(name, []), abs=2e-4)
            assert ours == pytest.approx(theirs, rel=1e-5)


def test_another_process_may_delete_the_same_ensemble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shutil.rmtree

    def together(folder: Path) -> None:
        """Delete an ensemble while another process deletes a file that was already listed here."""
        first = next(iter(folder.iterdir()), None)
        if first is None:
            whole(folder)
        else:
            first.unlink()
            raise FileNotFoundError(2, "No such file or directory", first.name)

    monkeypatch.setattr(shutil, "rmtree", together)
    runs = fit_many(DATA, [Member(2), Member(3)], FitOptions(runs=tmp_path, **SMALL))
    assert [run.status for run in runs] == ["complete", "complete"]
    assert list((tmp_path / ENSEMBLES).iterdir()) == []


def test_a_run_begun_alone_resumes_alone_when_it_is_part_of_an_ensemble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3, Trainer, "advance")
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, 3, runs=tmp_path, **SMALL)
    sizes: list[tuple[int, int]] = []
    train = module.train_with_checkpoints

    def watched(folder: Path, trainer: Trainer, *rest: Any) -> None:
        train(folder, trainer, *rest)
        sizes.append((len(trainer.members), trainer.state.step))

    monkeypatch.setattr(module, "train_with_checkpoints", watched)
    runs = fit_many(DATA, [Member(3, seed=seed) for seed in range(3)], FitOptions(runs=tmp_path, **SMALL))
    assert sizes == [(1, 30), (2, 30)]
    assert same(runs[0], fit(DATA, 3, runs=tmp_path / "whole", **SMALL))


def diverge(folder: Path, members: list[Member]) -> NonFiniteError:
    with pytest.raises(NonFiniteError) as caught:
        fit_many(DATA, members, FitOptions(runs=folder, **{**SMALL, "log_every": 4, "evaluate_every": 4, "steps": 40}))
    return caught.value


@pytest.mark.parametrize("members", [[1e6], [1e-4, 1e6, 1e-3]], ids=["alone", "stacked"])
def test_the_first_number_that_is_not_finite_is_traced(members: list[float], tmp_path: Path) -> None:
    asked = [Member(3, seed=seed, learning_rate=rate) for seed, rate in enumerate(members)]
    error = diverge(tmp_path, asked)
    assert members[error.member] == 1e6
    assert error.term in ("reconstruction", "rate", "loss", "gradient_norm")
    assert len(error.items) == 16
    assert set(error.items) <= set(range(len(DATA)))
    (failed,) = [Run.open(file.parent) for file in tmp_path.glob("*/failure.json")]
    assert failed.status == "failed"
    assert failed.configuration.member == asked[error.member]
    assert json.loads((failed.path / "failure.json").read_text())["sha256"]
    assert failed.failure == {"error": str(error), "term": error.term, "step": error.step, "items": error.items}
    good = load_state(failed.path / "last_good.safetensors")
    assert good.step == error.step
    assert torch.isfinite(good.parameters).all()
    assert all(torch.isfinite(slot).all() for slot in good.slots.values())
    with pytest.raises(RunError, match=r"diverged .*failure"):
        _ = failed.model


def test_a_failure_is_reproduced_at_the_same_step(tmp_path: Path) -> None:
    members = [Member(3, learning_rate=1e6)]
    first, second = diverge(tmp_path, members), diverge(tmp_path, members)
    assert (first.term, first.step, first.items) == (second.term, second.step, second.items)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["alone", "stacked"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(Trainer, "advance"), (module.Journal, "append")],
    ids=["while training", "before the rows are written"],
)
def test_an_interrupted_fit_resumes_to_the_same_numbers(
    seeds: tuple[int, ...], owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [Member(3, seed=seed) for seed in seeds]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3, owner, name)
        with pytest.raises(KeyboardInterrupt):
            fit_many(DATA, members, FitOptions(runs=tmp_path / "stopped", **SMALL))
    states = list((tmp_path / "stopped").rglob("state.safetensors"))
    assert [load_state(file).step for file in states] == ([15] if name == "advance" else [])
    resumed = fit_many(DATA, members[::-1], FitOptions(runs=tmp_path / "stopped", **SMALL))[::-1]
    whole = fit_many(DATA, members, FitOptions(runs=tmp_path / "whole", **SMALL))
    assert all(same(run, other) for run, other in zip(resumed, whole, strict=True))
    assert [run.history for run in resumed] == [run.history for run in whole]


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)], ids=["alone", "stacked"])
@pytest.mark.parametrize("written", [0, 1, None])
def test_an_interrupt_while_rows_are_written_loses_no_row(
    written: int | None, seeds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members, append, calls = [Member(3, seed=seed) for seed in seeds], module.Journal.append, [0]

    def torn(self: Any, rows: Any) -> None:
        calls[0] += 1
        append(self, list(rows)[: written if calls[0] == 3 else None])
        if calls[0] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.Journal, "append", torn)
        with pytest.raises(KeyboardInterrupt):
            fit_many(DATA, members, FitOptions(runs=tmp_path / "stopped", **SMALL))
    (state,) = (tmp_path / "stopped").rglob("state.safetensors")
    assert load_state(state).step == 15
    resumed = fit_many(DATA, members, FitOptions(runs=tmp_path / "stopped", **SMALL))
    whole = fit_many(DATA, members, FitOptions(runs=tmp_path / "whole", **SMALL))
    assert all(same(run, other) for run, other in zip(resumed, whole, strict=True))
    assert [run.history for run in resumed] == [run.history for run in whole]


def test_an_interrupt_while_the_last_checkpoint_is_written_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        write, calls = checkpointing.save_state, [0]

        def torn(*arguments: Any) -> None:
            calls[0] += 1
            if calls[0] == 1:
                raise KeyboardInterrupt
            write(*arguments)

        patch.setattr(checkpointing, "save_state", torn)
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, 3, runs=tmp_path, **SMALL)
    (state,) = tmp_path.rglob("state.safetensors")
    assert load_state(state).step == 30


def interrupted_group(folder: Path, seeds: range, patch: pytest.MonkeyPatch) -> None:
    """Runs that train together and are stopped at step 15."""
    with patch.context() as context:
        interrupt_after(context, 3, Trainer, "advance")
        with pytest.raises(KeyboardInterrupt):
            fit_many(DATA, [Member(3, seed=seed) for seed in seeds], FitOptions(runs=folder, **SMALL))


def test_runs_that_train_together_show_their_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_group(tmp_path, range(3), monkeypatch)
    assert [(row["status"], row["step"]) for row in read_rows(tmp_path).rows.values()] == [("training", 15)] * 3
    stopped = {path.name: Run.open(path).history for path in tmp_path.glob("[!.]*")}
    runs = fit_many(DATA, [Member(3, seed=seed) for seed in range(3)], FitOptions(runs=tmp_path, **SMALL))
    for run in runs:
        assert stopped[run.id] == [row for row in run.history if row["step"] <= 15] != []
    assert [row["step"] for row in read_rows(tmp_path).rows.values()] == [30] * 3


def test_runs_in_another_ensemble_show_their_progress_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_group(tmp_path, range(3), monkeypatch)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1, Trainer, "advance")
        with pytest.raises(KeyboardInterrupt):
            fit_many(DATA, [Member(3, seed=seed) for seed in range(4)], FitOptions(runs=tmp_path, **SMALL))
    assert [row["step"] for row in read_rows(tmp_path).rows.values()] == [5] * 4


@pytest.mark.parametrize("seeds", [range(1), range(2), range(4)], ids=["one of them", "some of them", "more"])
def test_an_ensemble_that_cannot_resume_is_deleted(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_group(tmp_path, range(3), monkeypatch)
    assert len(list((tmp_path / ENSEMBLES).iterdir())) == 1
    fit_many(DATA, [Member(3, seed=seed) for seed in seeds], FitOptions(runs=tmp_path, **SMALL))
    assert list((tmp_path / ENSEMBLES).iterdir()) == []


def test_an_ensemble_of_other_runs_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_group(tmp_path, range(3), monkeypatch)
    fit_many(DATA, [Member(3, seed=seed) for seed in (7, 8)], FitOptions(runs=tmp_path, **SMALL))
    (workplace,) = (tmp_path / ENSEMBLES).iterdir()
    assert load_state(workplace / "state.safetensors").step == 15


def test_without_held_out_items_there_are_no_test_rows(tmp_path: Path) -> None:
    run = fit(DATA, 3, runs=tmp_path, held_out=0, **SMALL)
    assert {row["split"] for row in run.history} == {"train", "probe"}
    assert run.last("test") == {}
    assert run.configuration.split.of(from_array(DATA))[1] is None


def test_held_out_is_a_share_or_a_number_of_items() -> None:
    data = from_array(DATA)
    for held_out, items in ((0.25, 25), (7, 7)):
        training, kept = FitOptions(held_out=held_out).split().of(data)
        assert kept is not None
        assert (len(training), len(kept)) == (100 - items, items)


def test_epochs_are_steps_over_whole_batches(tmp_path: Path) -> None:
    options = {name: value for name, value in SMALL.items() if name != "steps"}
    by_epochs = fit(DATA, 3, runs=tmp_path, epochs=6, **options)
    by_steps = fit(DATA, 3, runs=tmp_path, steps=6 * (90 // 16), **options)
    assert by_epochs == by_steps
    assert by_epochs.configuration.plan.steps == 30


@pytest.mark.parametrize(("epochs", "steps"), [(0.01, 1), (0.5, 2), (0.7, 4), (1, 5), (1.5, 8), (2.0, 10)])
def test_a_fraction_of_an_epoch_is_at_least_one_step(epochs: float, steps: int) -> None:
    assert FitOptions(epochs=epochs, batch=16).plan(90).steps == steps


def test_the_number_of_steps_and_rows_has_a_default() -> None:
    plan = FitOptions().plan(1000)
    assert (plan.steps, plan.batch, plan.log_every, plan.evaluate_every) == (5000, 64, 50, 500)
    short = FitOptions(steps=7, batch=64).plan(40)
    assert (short.steps, short.batch, short.log_every, short.evaluate_every) == (7, 40, 1, 1)


@pytest.mark.parametrize(
    ("array", "net", "likelihood"),
    [
        (np.random.default_rng(1).random((6, 16, 16)), Conv(), Bernoulli()),
        (np.random.default_rng(1).random((6, 3, 20, 16)), Conv(), Bernoulli()),
        (np.random.default_rng(1).random((6, 15, 40)), MLP(), Bernoulli()),
        (np.random.default_rng(1).random((6, 5)), MLP(), Gaussian(learned=True)),
    ],
    ids=["16 pixels", "colour", "15 pixels", "vectors"],
)
def test_defaults_follow_from_the_data(array: np.ndarray, net: Any, likelihood: Any) -> None:
    chosen = FitOptions().architecture(from_array(array))
    assert (chosen.net, chosen.likelihood) == (net, likelihood)


def test_the_default_posterior_follows_from_the_model() -> None:
    data = from_array(DATA)
    assert type(FitOptions().architecture(data).posterior).__name__ == "Diagonal"
    assert type(FitOptions(model="autoencoder").architecture(data).posterior).__name__ == "Deterministic"
    assert FitOptions(likelihood="gaussian").architecture(data).likelihood == Gaussian()


def test_the_source_of_the_data_is_recorded_but_not_part_of_the_id(tmp_path: Path) -> None:
    file = tmp_path / "codes.npy"
    np.save(file, DATA)
    run = fit(file, 3, runs=tmp_path / "runs", **SMALL)
    assert run.provenance.source == str(file)
    assert fit(DATA, 3, runs=tmp_path / "runs", **SMALL) == run
