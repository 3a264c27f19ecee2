"""Members that replace others in an ensemble train as if they had been there from the beginning."""

from __future__ import annotations

import pytest
import torch

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.training import Member, Plan, Trainer

FIRST = (Member(2, Beta(1.0), 1e-3, 0), Member(5, Beta(2.0), 1e-3, 1))
OTHER = (Member(4, Beta(3.0), 2e-3, 7), Member(3, Beta(0.5), 1e-3, 8))
PLAN = Plan(40, 16, precision="float64", log_every=10, evaluate_every=40, monitor_every=0)


def trainer(*members: Member, latents: int | None = None) -> Trainer:
    data = open_dataset("gaussian-manifold", dimension=3, ambient=8, items=200)
    architecture = Architecture(net=MLP((10,), (10,)), likelihood="gaussian")
    return Trainer(architecture, members, PLAN, data, latents=latents)


def trained(one: Trainer, stop: int) -> Trainer:
    while one.state.step < stop:
        one.advance(stop)
    return one


def test_members_that_take_turns_end_as_if_trained_alone() -> None:
    shared = trained(trainer(*FIRST), 20)
    halfway = [shared.member_state(place) for place in range(2)]
    shared.assign_slots(OTHER, [None, None])
    trained(shared, 25)
    kept = [shared.member_state(place) for place in range(2)]
    shared.assign_slots(FIRST, halfway)
    trained(shared, 40)
    ended = {member: shared.member_state(place) for place, member in enumerate(FIRST)}
    shared.assign_slots(OTHER[::-1], kept[::-1])
    trained(shared, 40)
    ended |= {member: shared.member_state(place) for place, member in enumerate(OTHER[::-1])}
    for member, state in ended.items():
        alone = trained(trainer(member), 40).member_state(0)
        assert state.step == alone.step == 40
        torch.testing.assert_close(state.parameters, alone.parameters, rtol=1e-9, atol=1e-12)
        for name, slot in alone.slots.items():
            torch.testing.assert_close(state.slots[name], slot, rtol=1e-9, atol=1e-12)


def test_a_wider_program_takes_wider_members() -> None:
    wide = trainer(*FIRST, latents=8)
    wide.assign_slots((Member(8), Member(1)), [None, None])
    assert trained(wide, 5).model(0).latent_mask.shape == (8,)


def test_members_that_do_not_fit_are_refused() -> None:
    shared = trained(trainer(*FIRST), 5)
    state = shared.member_state(0)
    for members, states in (
        (OTHER[:1], [None]),
        ((Member(6), Member(2)), [None, None]),
        ((FIRST[0], OTHER[0]), [state, None]),
    ):
        with pytest.raises(ConfigurationError, match="2 with at most 5 latents"):
            shared.assign_slots(members, states)
