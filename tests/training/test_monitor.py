"""The types of latents while they form."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
import torch

from vaescope.data import open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.encoding import encode
from vaescope.errors import CollapseWarning
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.regime import delta_kl
from vaescope.training import Member, Plan, Trainer

ARCHITECTURE = Architecture(net=MLP((32,), (32,)), likelihood={"name": "gaussian", "variance": 0.1})


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Two factors in six dimensions: no more than two latents can be of use."""
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


def test_types_go_into_the_history_where_the_plan_says(data: Dataset) -> None:
    _, looks = trained([Member(4, learning_rate=1e-2)], data, monitor_every=200)
    assert [look["step"] for look in looks] == [200, 400, 600]
    for look in looks:
        letters = str(look["types"])
        assert [letters.count(letter) for letter in "amp"] == [look["active"], look["mixed"], look["passive"]]
        assert len(look["correlations"]) == 6


def test_superfluous_latents_become_passive_and_useful_ones_active(data: Dataset) -> None:
    _, looks = trained([Member(4, learning_rate=1e-2)], data, steps=1500, evaluate_every=1500)
    assert (looks[-1]["active"], looks[-1]["passive"]) == (2, 2)


def test_what_is_seen_is_what_the_codes_of_the_probe_say(data: Dataset) -> None:
    trainer, looks = trained([Member(4, learning_rate=1e-2), Member(3, Beta(4.0), 1e-2, seed=5)], data)
    for position, member in enumerate(trainer.members):
        codes = encode(trainer.model(position), trainer.held_out)
        look = [look for look in looks if look["member"] == position][-1]
        mean, spread = codes.variance.double().mean(0), codes.variance.double().var(0)
        expected = ["m"] * member.latents
        for latent in range(member.latents):
            if spread[latent] < 0.1 and mean[latent] <= 0.1:
                expected[latent] = "a"
            if spread[latent] < 0.1 and abs(mean[latent] - 1) <= 0.1:
                expected[latent] = "p"
        assert look["types"] == "".join(expected)
        matrix = np.corrcoef(codes.mean.double().numpy().T)
        below = [matrix[row, column] for row in range(member.latents) for column in range(row)]
        np.testing.assert_allclose(look["correlations"], below, atol=1e-3)
        error = delta_kl(codes.mean, codes.variance)
        assert look["rate"] == pytest.approx(error.kl, rel=1e-4)
        assert look["delta_kl"] == pytest.approx(error.value, rel=1e-3, abs=1e-5)


def test_a_deterministic_code_has_no_types(data: Dataset) -> None:
    architecture = Architecture("autoencoder", MLP((8,), (8,)), "deterministic", likelihood="gaussian")
    trainer = Trainer(architecture, [Member(2)], Plan(100, log_every=100, evaluate_every=100, monitor_every=100), data)
    assert [row.split for row in trainer.advance()] == ["train"]


def test_zero_turns_the_monitor_off(data: Dataset) -> None:
    _, looks = trained([Member(2)], data, monitor_every=0)
    assert looks == []


def test_looking_changes_nothing(data: Dataset) -> None:
    seen, _ = trained([Member(4)], data)
    unseen, _ = trained([Member(4)], data, monitor_every=0)
    assert torch.equal(seen.state.parameters, unseen.state.parameters)


def test_collapse_is_announced_once_with_its_term_and_a_remedy(data: Dataset) -> None:
    trainer = Trainer(ARCHITECTURE, [Member(4, seed=3)], Plan(600, log_every=100, evaluate_every=600), *data.split(0.2))
    calm = {"active": 3, "mixed": 0, "passive": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.monitor._warn_of_collapse(0, calm, 100)
        trainer.monitor._warn_of_collapse(0, {**calm, "active": 2, "passive": 2}, 200)
    with pytest.warns(
        CollapseWarning,
        match=r"begins at step 300 \(seed 3, beta 1\): 2 of 3 active latents became passive.* rate .*free bits",
    ):
        trainer.monitor._warn_of_collapse(0, {**calm, "active": 1, "passive": 3}, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.monitor._warn_of_collapse(0, {**calm, "active": 0, "passive": 4}, 400)


def test_a_model_that_collapses_says_so(data: Dataset) -> None:
    """Latents that come to life under a weak rate die when training goes on under a strong one."""
    weak, _ = trained([Member(4, Beta(0.01), learning_rate=1e-2)], data)
    plan = Plan(2000, log_every=100, evaluate_every=2000, monitor_every=100)
    strong = Trainer(ARCHITECTURE, [Member(4, Beta(1000.0), learning_rate=1e-2)], plan, *data.split(0.2))
    strong.load(weak.state)
    strong.monitor.look(strong.state.parameters, 0)
    with pytest.warns(CollapseWarning, match="beta 1000.*active latents became passive"):
        finish(strong)


def test_a_model_that_never_comes_to_life_says_so(data: Dataset) -> None:
    plan = Plan(800, log_every=100, evaluate_every=800, monitor_every=100)
    trainer = Trainer(ARCHITECTURE, [Member(4, Beta(1000.0), learning_rate=1e-2)], plan, *data.split(0.2))
    with pytest.warns(CollapseWarning, match=r"beta 1000\): no latent has become active") as caught:
        finish(trainer)
    assert len(caught) == 1


def test_superfluous_latents_that_become_passive_are_no_collapse(data: Dataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained([Member(6, learning_rate=1e-2)], data, steps=1000, evaluate_every=1000)


def test_looking_costs_at_most_three_percent_of_training() -> None:
    plan = Plan(100, log_every=5, evaluate_every=100)
    trainer = Trainer(Architecture(), [Member(10)], plan, open_dataset("dsprites-small"))
    trainer.advance()
    steps, looks = [], []
    for _ in range(3):
        start = time.perf_counter()
        trainer.advance()
        steps.append((time.perf_counter() - start) / 5)
        start = time.perf_counter()
        trainer.monitor.look(trainer.state.parameters, 0)
        looks.append(time.perf_counter() - start)
    assert min(looks) <= 0.03 * min(steps) * plan.monitor_every
