"""A member of an ensemble is the model trained alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.models import Architecture
from vaescope.nets import MLP, Conv
from vaescope.objectives import Beta
from vaescope.training import HistoryRow, Member, Plan, Trainer

ARCHITECTURES = {
    "conv": Architecture(net=Conv(channels=(8, 8, 16, 16), hidden=32)),
    "mlp": Architecture(net=MLP((40,), (40,), "tanh", "relu")),
    "gaussian": Architecture(net="affine", likelihood={"name": "gaussian", "learned": True}),
    "autoencoder": Architecture(model="autoencoder", net=MLP((40,), (40,)), posterior="deterministic"),
}
MEMBERS = (
    Member(3, Beta(1.0), 1e-3, seed=0),
    Member(8, Beta(4.0), 1e-4, seed=3),
    Member(5, Beta(0.5), 2e-3, seed=11),
)


@pytest.fixture(scope="module")
def data() -> Dataset:
    generator = np.random.default_rng(0)
    smooth = generator.random((120, 4, 4)).repeat(4, 1).repeat(4, 2)
    return from_array(smooth > 0.6)


def trained(
    architecture: Architecture, members: tuple[Member, ...], data: Dataset, **plan: object
) -> tuple[Trainer, list[HistoryRow]]:
    settings = {"steps": 50, "batch": 16, "precision": "float64", "log_every": 25, "evaluate_every": 25, **plan}
    trainer = Trainer(architecture, members, Plan(**settings), *data.split(0.2))
    rows: list[HistoryRow] = []
    while not trainer.finished:
        rows += trainer.advance()
    return trainer, rows


def difference(one: torch.nn.Module, other: torch.nn.Module) -> float:
    """The largest relative difference over parameters."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).norm() / theirs[name].norm().clamp_min(1e-300)) for name in theirs)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_member_equals_the_model_trained_alone(name: str, data: Dataset) -> None:
    together, rows = trained(ARCHITECTURES[name], MEMBERS, data)
    for position, member in enumerate(MEMBERS):
        alone, own_rows = trained(ARCHITECTURES[name], (member,), data)
        assert difference(together.model(position), alone.model()) <= 1e-9
        for row, own in zip([row for row in rows if row.member == position], own_rows, strict=True):
            assert (row.step, row.split) == (own.step, own.split)
            assert row.values.get("types") == own.values.get("types")
            for term, value in own.values.items():
                if term != "types":
                    rounded = term in ("correlations", "rates")
                    assert row.values[term] == pytest.approx(value, rel=1e-9, abs=1.1e-4 * rounded)


@pytest.mark.parametrize("optimiser", ["amsgrad", "adagrad"])
def test_a_member_equals_the_model_trained_alone_under_every_optimiser(optimiser: str, data: Dataset) -> None:
    together, _ = trained(ARCHITECTURES["mlp"], MEMBERS, data, optimiser=optimiser)
    alone, _ = trained(ARCHITECTURES["mlp"], (MEMBERS[1],), data, optimiser=optimiser)
    assert difference(together.model(1), alone.model()) <= 1e-9


def test_the_optimiser_state_of_a_member_equals_that_of_the_model_trained_alone(data: Dataset) -> None:
    together, _ = trained(ARCHITECTURES["conv"], MEMBERS, data)
    alone, _ = trained(ARCHITECTURES["conv"], (MEMBERS[0],), data)
    own = together.member_state(0)
    for name, slot in alone.state.slots.items():
        torch.testing.assert_close(own.slots[name], slot, rtol=1e-8, atol=1e-14)


def test_the_order_of_members_does_not_matter(data: Dataset) -> None:
    forward, _ = trained(ARCHITECTURES["mlp"], MEMBERS, data)
    backward, _ = trained(ARCHITECTURES["mlp"], MEMBERS[::-1], data)
    for position in range(3):
        assert difference(forward.model(position), backward.model(2 - position)) <= 1e-9


def test_the_same_seed_gives_the_same_weights_to_the_last_bit(data: Dataset) -> None:
    for members in (MEMBERS[:1], MEMBERS):
        one, _ = trained(ARCHITECTURES["mlp"], members, data, precision="float32")
        torch.manual_seed(17)
        other, _ = trained(ARCHITECTURES["mlp"], members, data, precision="float32")
        assert torch.equal(one.state.parameters, other.state.parameters)


def test_different_seeds_give_different_weights(data: Dataset) -> None:
    members = (Member(4, seed=0), Member(4, seed=1))
    trainer, _ = trained(ARCHITECTURES["mlp"], members, data)
    assert difference(trainer.model(0), trainer.model(1)) > 0.1


def test_latents_outside_a_member_stay_untouched(data: Dataset) -> None:
    together, _ = trained(ARCHITECTURES["mlp"], MEMBERS, data)
    weights = together.ensemble.layout.unpack(together.state.parameters[0]).model
    assert torch.all(weights["posterior.mean.weight"][3:] == 0)
    assert torch.all(weights["decoder.layers.0.weight"][:, 3:] == 0)


def test_training_in_pieces_is_bit_identical(data: Dataset) -> None:
    for members in (MEMBERS[:1], MEMBERS):
        whole, rows = trained(ARCHITECTURES["conv"], members, data, precision="float32")
        first = Trainer(ARCHITECTURES["conv"], members, whole.plan, *data.split(0.2))
        pieces = first.advance()
        second = Trainer(ARCHITECTURES["conv"], members, whole.plan, *data.split(0.2))
        second.load(first.state)
        pieces += second.advance()
        assert torch.equal(second.state.parameters, whole.state.parameters)
        assert pieces == rows


def test_bfloat16_and_float32_train_to_nearly_the_same_loss(data: Dataset) -> None:
    _, exact = trained(ARCHITECTURES["mlp"], MEMBERS, data, precision="float32")
    _, coarse = trained(ARCHITECTURES["mlp"], MEMBERS, data, precision="bfloat16")
    for one, other in zip(exact, coarse, strict=True):
        if one.split != "probe":
            assert other.values["loss"] == pytest.approx(one.values["loss"], rel=0.02)
