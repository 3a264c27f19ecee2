"""A residual net with BatchNorm: an ensemble against plain PyTorch, and statistics in lower precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.models import Architecture
from vaescope.nets import ResNet
from vaescope.numerics.distributions import latent_rate
from vaescope.training import HistoryRow, Member, Plan, Trainer
from vaescope.training.batches import BatchOrder, draw_noise
from vaescope.training.engines import SingleEngine, StackedEngine

STEPS, BATCH = 30, 8
ARCHITECTURE = Architecture(net=ResNet(width=2, widest=4, smallest=8))
MEMBERS = tuple(Member(latents, learning_rate=1e-3, seed=seed) for seed, latents in enumerate((3, 2, 3, 1)))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return from_array(np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8))


def trained(data: Dataset, members: tuple[Member, ...], **plan: Any) -> tuple[Trainer, list[HistoryRow]]:
    settings = {"precision": "float64", "log_every": 1, "evaluate_every": STEPS, "monitor_every": STEPS, **plan}
    trainer = Trainer(ARCHITECTURE, members, Plan(STEPS, BATCH, **settings), data, data)
    rows: list[HistoryRow] = []
    while not trainer.finished:
        rows += trainer.advance()
    return trainer, rows


def plain(data: Dataset, member: Member) -> tuple[dict[str, Tensor], list[float]]:
    """The tensors and losses of a loop in plain PyTorch, on the same initial weights, items and noise."""
    model = ARCHITECTURE.build(data.shape, member.latents, member.seed).double().train()
    optimiser = torch.optim.Adam(model.parameters(), member.learning_rate)
    seeds, losses = torch.tensor([member.seed]), []
    order = BatchOrder(seeds, len(data), BATCH).indices(range(STEPS))
    noise = draw_noise(model.noise, seeds, range(STEPS), BATCH, torch.float64)
    for step in range(STEPS):
        x = data.batch(order[step, 0]).double()
        result = model(x, {name: draw[step, 0] for name, draw in noise.items()})
        rate = latent_rate(result.posterior, result.prior, result.z).sum(1)
        loss = (rate - result.likelihood.log_prob(x)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return model.state_dict(), losses


def test_an_ensemble_of_four_equals_four_loops_in_plain_pytorch(data: Dataset) -> None:
    """Losses of every step, parameters and running statistics."""
    together, rows = trained(data, MEMBERS)
    assert isinstance(together.engine, StackedEngine)
    for position, member in enumerate(MEMBERS):
        expected, losses = plain(data, member)
        found = [row.values["loss"] for row in rows if (row.member, row.split) == (position, "train")]
        assert found == pytest.approx(losses, rel=1e-9)
        tensors = together.model(position).state_dict()
        assert {name for name in expected if "running" in name}
        for name, value in expected.items():
            assert float((tensors[name] - value).double().abs().max()) <= 1e-9, name


def test_a_member_alone_equals_the_loop_in_plain_pytorch(data: Dataset) -> None:
    alone, rows = trained(data, MEMBERS[:1])
    assert isinstance(alone.engine, SingleEngine)
    expected, losses = plain(data, MEMBERS[0])
    assert [row.values["loss"] for row in rows if row.split == "train"] == pytest.approx(losses, rel=1e-9)
    for name, value in alone.model().state_dict().items():
        assert float((expected[name] - value).double().abs().max()) <= 1e-9, name


@pytest.mark.parametrize("members", [1, 2], ids=["alone", "stacked"])
def test_statistics_are_kept_in_float32_while_the_model_computes_in_bfloat16(data: Dataset, members: int) -> None:
    """With hardly any learning, the statistics are those of float32 up to the rounding of activations."""
    given = tuple(Member(3, learning_rate=1e-9, seed=seed) for seed in range(members))
    coarse, rows = trained(data, given, precision="bfloat16")
    exact, _ = trained(data, given, precision="float32")
    names = [name for name in coarse.state.buffers if "running_var" in name]
    assert len(names) == 6
    for name in names:
        kept = coarse.state.buffers[name]
        assert kept.dtype == torch.float32
        assert not torch.equal(kept, kept.bfloat16().float())
        torch.testing.assert_close(kept, exact.state.buffers[name], rtol=0.01, atol=1e-4)
    assert all(np.isfinite(row.values["loss"]) for row in rows if row.split == "test")
    assert all(value.dtype == torch.float32 for name, value in coarse.model().state_dict().items() if "num" not in name)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("normalisation", ["group", "none"])
def test_other_normalisations_are_trained_evaluated_and_probed_together(normalisation: str, channels: int) -> None:
    images = from_array(np.random.default_rng(0).integers(0, 256, (24, 16, 16, channels), dtype=np.uint8))
    architecture = Architecture(net=ResNet(width=2, widest=4, smallest=8, normalisation=normalisation))
    plan = Plan(4, BATCH, precision="float64", log_every=2, evaluate_every=2, monitor_every=2)
    together, alone = (Trainer(architecture, members, plan, images, images) for members in (MEMBERS[:3], MEMBERS[2:3]))
    assert isinstance(together.engine, StackedEngine)
    while not together.finished:
        found = [row for row in together.advance() if row.member == 2]
        for ours, other in zip(found, alone.advance(), strict=True):
            assert (ours.step, ours.split) == (other.step, other.split)
            numbers = {"loss", "rate"} & ours.values.keys()
            assert [ours.values[name] for name in numbers] == pytest.approx([other.values[name] for name in numbers])
    assert (together.member_state(2).parameters - alone.member_state(0).parameters).abs().max() <= 1e-9
