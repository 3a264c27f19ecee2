"""Types of latents during training."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.encoding import encode
from vaescope.errors import CollapseWarning
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.numerics.polarised import CollapseWatch
from vaescope.objectives import Beta
from vaescope.regime import LatentStatistics, delta_kl
from vaescope.training import Member, Plan, Trainer
from vaescope.training.batches import Batches

ARCHITECTURE = Architecture(net=MLP((32,), (32,)), likelihood={"name": "gaussian", "variance": 0.1})


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Two factors in six dimensions: at most two latents are useful."""
    generator = np.random.default_rng(0)
    return from_array(generator.normal(size=(600, 2)) @ generator.normal(size=(2, 6)))


def trained(members: list[Member], data: Dataset, **plan: int) -> tuple[Trainer, list[dict[str, object]]]:
    settings = {"steps": 600, "batch": 64, "log_every": 100, "evaluate_every": 600, "monitor_every": 100, **plan}
    trainer = Trainer(ARCHITECTURE, members, Plan(**settings), *data.split(0.2))
    rows = []
    while not trainer.finished:
        rows += trainer.advance()
    return trainer, [{"member": row.member, "step": row.step, **row.values} for row in rows if row.split == "probe"]


def finish(trainer: Trainer) -> None:
    while not trainer.finished:
        trainer.advance()


def test_types_are_probed_at_the_steps_of_the_plan(data: Dataset) -> None:
    _, probes = trained([Member(4, learning_rate=1e-2)], data, monitor_every=200)
    assert [probe["step"] for probe in probes] == [200, 400, 600]
    for probe in probes:
        letters = str(probe["types"])
        assert [letters.count(letter) for letter in "amp"] == [probe["active"], probe["mixed"], probe["passive"]]
        assert len(probe["correlations"]) == 6


def test_superfluous_latents_become_passive_and_useful_ones_active(data: Dataset) -> None:
    _, probes = trained([Member(4, learning_rate=1e-2)], data, steps=1500, evaluate_every=1500)
    assert (probes[-1]["active"], probes[-1]["passive"]) == (2, 2)


def test_a_probe_equals_the_statistics_of_its_codes(data: Dataset) -> None:
    trainer, probes = trained([Member(4, learning_rate=1e-2), Member(3, Beta(4.0), 1e-2, seed=5)], data)
    for position, member in enumerate(trainer.members):
        codes = encode(trainer.model(position), trainer.held_out)
        probe = [probe for probe in probes if probe["member"] == position][-1]
        mean, spread = codes.variance.double().mean(0), codes.variance.double().var(0)
        expected = ["m"] * member.latents
        for latent in range(member.latents):
            if spread[latent] < 0.1 and mean[latent] <= 0.1:
                expected[latent] = "a"
            if spread[latent] < 0.1 and abs(mean[latent] - 1) <= 0.1:
                expected[latent] = "p"
        assert probe["types"] == "".join(expected)
        matrix = np.corrcoef(codes.mean.double().numpy().T)
        below = [matrix[row, column] for row in range(member.latents) for column in range(row)]
        np.testing.assert_allclose(probe["correlations"], below, atol=1e-3)
        error = delta_kl(codes.mean, codes.variance)
        assert probe["rate"] == pytest.approx(error.kl, rel=1e-4)
        rates = LatentStatistics.of(codes.mean, codes.variance).rate.tolist()
        assert probe["rates"] == pytest.approx(rates, rel=1e-4, abs=1e-4)
        assert probe["delta_kl"] == pytest.approx(error.value, rel=1e-3, abs=1e-5)


def test_a_deterministic_code_has_no_types(data: Dataset) -> None:
    architecture = Architecture("autoencoder", MLP((8,), (8,)), "deterministic", likelihood="gaussian")
    trainer = Trainer(architecture, [Member(2)], Plan(100, log_every=100, evaluate_every=100, monitor_every=100), data)
    assert [row.split for row in trainer.advance()] == ["train"]


def test_zero_turns_the_monitor_off(data: Dataset) -> None:
    _, probes = trained([Member(2)], data, monitor_every=0)
    assert probes == []


def test_probing_changes_nothing(data: Dataset) -> None:
    seen, _ = trained([Member(4)], data)
    unseen, _ = trained([Member(4)], data, monitor_every=0)
    assert torch.equal(seen.state.parameters, unseen.state.parameters)


def test_collapse_begins_once_when_half_of_the_active_latents_are_gone() -> None:
    watch, events = CollapseWatch(), []
    for step, active in ((100, 3), (200, 2), (300, 1), (400, 0)):
        watch, what = watch.after({"active": active, "mixed": 0, "passive": 4 - active}, step, 600)
        events.append(what)
    assert [what is not None for what in events] == [False, False, True, False]
    assert "2 of 3" in str(events[2])


def test_a_model_that_collapses_warns_once_with_its_seed_and_objective(data: Dataset) -> None:
    """Latents that come to life under a weak rate die when training continues under a strong one."""
    weak, _ = trained([Member(4, Beta(0.01), learning_rate=1e-2)], data)
    plan = Plan(2000, log_every=100, evaluate_every=2000, monitor_every=100)
    strong = Trainer(ARCHITECTURE, [Member(4, Beta(1000.0), 1e-2, seed=3)], plan, *data.split(0.2))
    strong.load(weak.state)
    strong.monitor.probe(strong.state)
    with pytest.warns(CollapseWarning, match=r"seed 3, beta 1000.* became passive") as caught:
        finish(strong)
    assert len(caught) == 1


def test_a_model_without_active_latents_warns_once(data: Dataset) -> None:
    plan = Plan(800, log_every=100, evaluate_every=800, monitor_every=100)
    trainer = Trainer(ARCHITECTURE, [Member(4, Beta(1000.0), learning_rate=1e-2)], plan, *data.split(0.2))
    with pytest.warns(CollapseWarning, match=r"beta 1000.* no latent") as caught:
        finish(trainer)
    assert len(caught) == 1


def test_superfluous_latents_that_become_passive_are_no_collapse(data: Dataset) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, probes = trained([Member(6, learning_rate=1e-2)], data, steps=1000, evaluate_every=1000)
    assert probes[-1]["passive"] > 0
    assert not [warning for warning in caught if issubclass(warning.category, CollapseWarning)]


def test_a_probe_reads_few_items_compared_with_the_training_between_probes(data: Dataset) -> None:
    plan = Plan(100_000)
    assert 1 <= plan.steps // plan.monitor_every <= 300
    assert plan.monitor_items <= 0.05 * plan.batch * plan.monitor_every
    read: list[int] = []

    class Counted(Batches):
        def batch(self, index: Tensor) -> Tensor:
            read.append(len(index))
            return super().batch(index)

    trainer = Trainer(ARCHITECTURE, [Member(4)], Plan(100, monitor_items=50), data)
    trainer.monitor.data = Counted(trainer.monitor.data.data)
    trainer.monitor.probe(trainer.state)
    assert sum(read) == 50


def test_a_probe_uses_evaluation_mode_and_training_continues_in_training_mode(data: Dataset) -> None:
    trainer = Trainer(
        ARCHITECTURE, [Member(4)], Plan(100, log_every=50, monitor_every=50, evaluate_every=50), data, data
    )
    modes: list[bool] = []
    trainer.ensemble.model.encoder.register_forward_hook(lambda module, *_: modes.append(module.training))
    trainer.advance()
    assert modes[:50] == [True] * 50
    assert not any(modes[50:])
    assert len(modes) > 52
    assert trainer.ensemble.model.training
    assert not trainer.model().training


def test_a_variance_that_underflows_has_a_finite_rate(data: Dataset) -> None:
    trainer = Trainer(ARCHITECTURE, [Member(2)], Plan(steps=10), data)
    weights = trainer.ensemble.layout.unpack(trainer.state.parameters[0]).model
    (bias,) = (value for name, value in weights.items() if name.endswith("log_variance.bias"))
    bias.fill_(-500.0)
    assert encode(trainer.model(), data).variance.max() == 0
    (row,) = trainer.monitor.probe(trainer.state)
    assert np.isfinite([row["rate"], row["delta_kl"], *row["correlations"]]).all()
    assert row["rate"] > 100
