"""Plans, the order of batches, evaluation, and what happens when a number stops being finite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, NonFiniteError, RepetitionWarning
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.training import OPTIMISERS, BatchOrder, Member, Plan, State, Trainer
from vaescope.training.batches import draw_noise
from vaescope.training.engines import Records
from vaescope.training.ensemble import MAX_MEMBERS, group_members

ARCHITECTURE = Architecture(net=MLP((16,), (16,)), likelihood="gaussian")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return from_array(np.random.default_rng(0).normal(size=(100, 6)))


def test_every_epoch_shows_each_item_once_and_in_a_new_order() -> None:
    order = BatchOrder(torch.tensor([5]), items=30, batch=10)
    epochs = [order.indices(range(3 * epoch, 3 * epoch + 3)).flatten() for epoch in range(2)]
    for epoch in epochs:
        assert epoch.sort().values.tolist() == list(range(30))
    assert not torch.equal(epochs[0], epochs[1])


def test_batches_can_be_requested_in_any_order() -> None:
    order = BatchOrder(torch.tensor([5, 6]), items=33, batch=10)
    straight = order.indices(range(12))
    assert torch.equal(order.indices(range(11, 12))[0], straight[11])
    assert torch.equal(order.indices(range(0, 1))[0], straight[0])


def test_a_batch_larger_than_the_data_is_all_of_them() -> None:
    order = BatchOrder(torch.tensor([0]), items=7, batch=64)
    assert order.steps_per_epoch == 1
    assert order.indices(range(1)).flatten().sort().values.tolist() == list(range(7))


def test_noise_does_not_depend_on_the_chunk_or_the_width_it_is_drawn_in() -> None:
    seeds = torch.tensor([1, 2])
    wide = draw_noise({"posterior": 8}, seeds, range(0, 10), 4, torch.float64)["posterior"]
    narrow = draw_noise({"posterior": 3}, seeds[1:], range(6, 7), 4, torch.float64)["posterior"]
    assert torch.equal(narrow[0, 0], wide[6, 1, :, :3])


def test_history_rows_follow_the_plan(data: Dataset) -> None:
    plan = Plan(25, 10, log_every=5, evaluate_every=10)
    trainer = Trainer(ARCHITECTURE, [Member(2)], plan, *data.split(0.2))
    rows = [row for _ in range(5) for row in trainer.advance()]
    assert trainer.finished
    assert [row.step for row in rows if row.split == "train"] == [5, 10, 15, 20, 25]
    assert [row.step for row in rows if row.split == "test"] == [10, 20, 25]
    assert set(rows[0].values) == {"loss", "reconstruction", "rate", "gradient_norm"}


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_the_slots_of_an_optimiser_begin_at_zero(name: str, data: Dataset) -> None:
    state = Trainer(ARCHITECTURE, [Member(2), Member(3)], Plan(10, optimiser=name, precision="float64"), data).state
    assert tuple(state.slots) == OPTIMISERS[name].slots
    for slot in state.slots.values():
        assert (slot.shape, slot.dtype) == (state.parameters.shape, torch.float64)
        assert not slot.any()


def test_the_loss_falls(data: Dataset) -> None:
    trainer = Trainer(
        ARCHITECTURE, [Member(3, learning_rate=1e-2)], Plan(200, 50, log_every=20, evaluate_every=20), data
    )
    losses = [trainer.advance()[0].values["loss"] for _ in range(10)]
    assert losses[-1] < losses[0] - 0.5


def diverging(members: list[Member], data: Dataset, precision: str = "float32") -> tuple[Trainer, NonFiniteError]:
    plan = Plan(200, 10, "adam", precision, log_every=20, evaluate_every=20)
    trainer = Trainer(ARCHITECTURE, members, plan, *data.split(0.2))
    with pytest.raises(NonFiniteError) as caught:
        finish(trainer)
    return trainer, caught.value


def finish(trainer: Trainer) -> None:
    while not trainer.finished:
        trainer.advance()


@pytest.mark.parametrize("companions", [0, 2])
def test_the_first_number_that_is_not_finite_stops_training_and_is_named(companions: int, data: Dataset) -> None:
    calm = [Member(2, seed=seed) for seed in range(companions)]
    wild = Member(2, Beta(4.0), learning_rate=50.0, seed=9)
    trainer, error = diverging([*calm, wild], data)
    assert error.member == companions
    assert error.term in ("rate", "reconstruction", "gradient_norm")
    assert trainer.state.step == error.step
    assert torch.isfinite(trainer.state.parameters).all()
    message = str(error)
    assert f"step {error.step}" in message
    assert "the member with seed 9, 2 latents, beta 4 and learning rate 50" in message
    # The items are numbers of the user's data set, and those of the step that broke.
    split = data.split(0.2)[0]
    expected = split.index[BatchOrder(torch.tensor([9]), 80, 10).indices(range(error.step, error.step + 1))[0, 0]]
    assert error.items == expected.tolist()


def test_the_last_good_state_is_the_one_before_the_broken_step(data: Dataset) -> None:
    trainer, error = diverging([Member(2, Beta(4.0), learning_rate=50.0, seed=9)], data)
    again = Trainer(
        ARCHITECTURE, trainer.members, Plan(error.step, 10, log_every=1, evaluate_every=1), *data.split(0.2)
    )
    finish(again)
    assert torch.equal(again.state.parameters, trainer.state.parameters)


@pytest.mark.parametrize("companions", [0, 2])
def test_the_error_gives_the_loss_before_and_at_the_failing_step(companions: int, data: Dataset) -> None:
    wild = Member(2, Beta(4.0), learning_rate=50.0, seed=9)
    trainer, error = diverging([*(Member(2, seed=seed) for seed in range(companions)), wild], data)
    again = Trainer(ARCHITECTURE, trainer.members, trainer.plan, *data.split(0.2))
    losses = again.engine.run(again.state, error.step + 1)["loss"][error.step - 1 :, -1].tolist()
    assert f", where the loss was {losses[0]:.4g} and then {losses[1]:.4g}. Lower" in str(error)


@pytest.mark.parametrize("members", [1, 3])
def test_a_single_non_finite_number_warns_and_training_continues(
    members: int, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = [Member(2, seed=seed) for seed in range(members)]
    plan = Plan(60, 10, log_every=20, evaluate_every=20)
    untroubled, trainer = (Trainer(ARCHITECTURE, who, plan, *data.split(0.2)) for _ in range(2))
    genuine, calls = trainer.engine.run, []

    def faulty(state: State, stop: int) -> Records:
        records = genuine(state, stop)
        calls.append(stop)
        if calls == [20, 40]:
            records["gradient_norm"][7, -1] = math.inf
            state.parameters[-1] += math.nan
        return records

    monkeypatch.setattr(trainer.engine, "run", faulty)
    expected = [untroubled.advance() for _ in range(3)]
    found = [trainer.advance()]
    message = rf"gradient_norm became inf at step 27 of the member with seed {members - 1}, 2 latents, .* from 20 on"
    with pytest.warns(RepetitionWarning, match=message):
        found.append(trainer.advance())
    found.append(trainer.advance())
    assert calls == [20, 40, 40, 60]
    assert found == expected
    assert torch.equal(trainer.state.parameters, untroubled.state.parameters)


def test_an_interruption_restores_the_state_of_the_last_row(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(ARCHITECTURE, [Member(2)], Plan(40, 10, log_every=20, evaluate_every=20), *data.split(0.2))
    trainer.advance()
    before = trainer.state.copy()
    batches = iter(range(7))
    genuine = trainer.data.batch

    def interrupted(index: torch.Tensor) -> torch.Tensor:
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return genuine(index)

    monkeypatch.setattr(type(trainer.data), "batch", lambda self, index: interrupted(index))
    with pytest.raises(KeyboardInterrupt):
        trainer.advance()
    assert trainer.state.step == before.step
    assert torch.equal(trainer.state.parameters, before.parameters)


def test_a_state_of_another_shape_is_refused(data: Dataset) -> None:
    plan = Plan(10, 10, log_every=5, evaluate_every=5)
    small, large = (Trainer(ARCHITECTURE, [Member(latents)], plan, data) for latents in (2, 5))
    with pytest.raises(ConfigurationError, match=r"960.* 768"):
        large.load(small.state)


def test_small_nets_train_together_on_a_cpu_and_large_ones_alone() -> None:
    members = [Member(2)] * 70
    cpu = torch.device("cpu")
    small = ARCHITECTURE.build((6,), 2, seed=0)
    large = Architecture().build((1, 64, 64), 2, seed=0)
    assert [len(positions) for positions in group_members(members, small, cpu)] == [MAX_MEMBERS, 70 - MAX_MEMBERS]
    assert [len(positions) for positions in group_members(members, large, cpu)] == [1] * 70
    assert [len(positions) for positions in group_members(members, large, torch.device("cuda"))] == [64, 6]


def test_members_that_do_not_fit_into_memory_together_are_refused(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, one = Plan(10), Trainer(ARCHITECTURE, [Member(2)], Plan(10), data)
    # The state and its copy hold the parameters and two moments, next to the gradient.
    needed = 7 * 4 * sum(parameter.numel() for parameter in one.model().parameters())
    monkeypatch.setattr("vaescope.training.device.available_memory", lambda: 10 * needed)
    Trainer(ARCHITECTURE, [Member(2, seed=seed) for seed in range(9)], plan, data)
    with pytest.raises(ConfigurationError, match=r"11 models in training, each with.* GB .* The largest tensor is .*"):
        Trainer(ARCHITECTURE, [Member(2, seed=seed) for seed in range(11)], plan, data)


def test_memory_that_ends_while_training_is_a_sentence_and_keeps_the_state(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(ARCHITECTURE, [Member(2)], Plan(40, 10, log_every=20, evaluate_every=20), *data.split(0.2))
    trainer.advance()
    before = trainer.state.copy()

    def exhausted(*_: object) -> None:
        trainer.state.parameters.add_(1.0)
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")

    monkeypatch.setattr(trainer.engine, "run", exhausted)
    with pytest.raises(ConfigurationError, match="batches of 10 items must fit into memory"):
        trainer.advance()
    assert (trainer.state.step, trainer.state.parameters.tolist()) == (before.step, before.parameters.tolist())
