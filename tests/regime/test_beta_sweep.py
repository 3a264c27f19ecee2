"""A sweep of beta on dsprites-small: active latents decrease, passive latents increase, and all collapse at the end."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.regime import MeanAndSampled, VariableTypes, mean_and_sampled, point_of_total_collapse, variable_types
from vaescope.training import Member, Plan, Trainer

BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LATENTS = 8


@pytest.fixture(scope="module")
def sweep() -> list[tuple[VariableTypes, MeanAndSampled]]:
    """One ensemble over beta, on the sprites at a quarter of their size (a nat of rate then weighs as much more)."""
    sprites = open_dataset("dsprites-small")
    data = open_dataset(F.avg_pool2d(sprites.batch(torch.arange(len(sprites))), 4))
    members = [Member(LATENTS, Beta(beta), 2e-3) for beta in BETAS]
    plan = Plan(2000, 64, log_every=500, evaluate_every=500, monitor_every=0)
    trainer = Trainer(Architecture(net=MLP((64,), (64,))), members, plan, data)
    while not trainer.finished:
        trainer.advance()
    found = []
    for position in range(len(BETAS)):
        codes = encode(trainer.model(position), data)
        types = variable_types(codes)
        found.append((types, mean_and_sampled(codes, types)))
    return found


@pytest.mark.slow
def test_active_latents_decrease_and_passive_latents_increase_with_beta(
    sweep: list[tuple[VariableTypes, MeanAndSampled]],
) -> None:
    active = [len(types.active) for types, _ in sweep]
    passive = [len(types.passive) for types, _ in sweep]
    assert active == sorted(active, reverse=True)
    assert passive == sorted(passive)
    assert active[0] >= 3
    assert passive[0] <= 3


@pytest.mark.slow
def test_all_latents_collapse_at_the_largest_beta(sweep: list[tuple[VariableTypes, MeanAndSampled]]) -> None:
    passive = [len(types.passive) for types, _ in sweep]
    assert passive[-1] == LATENTS
    assert point_of_total_collapse(BETAS, passive, LATENTS).beta in (16.0, 32.0)


@pytest.mark.slow
def test_the_trace_difference_counts_the_passive_latents(sweep: list[tuple[VariableTypes, MeanAndSampled]]) -> None:
    for types, compared in sweep:
        rest = sum(row["variance_mean"] for row in types.rows() if row["type"] != "passive")
        assert compared.trace_difference == pytest.approx(len(types.passive) + rest, abs=0.2)
