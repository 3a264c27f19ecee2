"""On a GPU: every model, and each objective that needs more than the forward pass, trains as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import scale_pixels
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import DIPII, Annealed, Beta, BetaTC, Decomposition, Factor
from vaescope.priors import Anisotropic
from vaescope.training import Member, Plan, Trainer

SMALL = MLP((12,), (12,), "tanh", "tanh")
CASES: dict[str, tuple[Architecture, Any]] = {
    "vgon": (Architecture("vgon", SMALL), Beta(2.0)),
    "identifiable": (Architecture("identifiable", SMALL, condition=5), Beta(2.0)),
    "conditional": (Architecture("conditional", SMALL, condition=10), Beta(2.0)),
    "full": (Architecture(net=SMALL, posterior="full"), Annealed(gamma=10.0)),
    "factor": (Architecture(net=SMALL), Factor(gamma=5.0)),
    "beta_tc": (Architecture(net=SMALL, prior="student_t"), BetaTC(beta=3.0)),
    "mmd": (Architecture(net=SMALL, prior="sparse", likelihood="laplace"), Decomposition(alpha=10.0)),
    "kl": (Architecture(net=SMALL, prior="mixture"), Decomposition(alpha=2.0, divergence="kl")),
    "dip": (Architecture(net=SMALL, prior=Anisotropic("learned")), DIPII()),
}


def data_of(name: str) -> Dataset:
    return open_dataset("dsprites-small").draw(400) if name == "identifiable" else open_dataset("digits").draw(400)


def trained(name: str, members: list[Member], device: str) -> tuple[Trainer, list[dict[str, Any]]]:
    plan = Plan(20, 16, precision="float64", log_every=10, evaluate_every=20, monitor_every=10)
    trainer = Trainer(CASES[name][0], members, plan, *data_of(name).split(0.2), device)
    rows = [row for _ in range(2) for row in trainer.advance()]
    return trainer, [row.values for row in rows if row.member == len(members) - 1 and row.split == "probe"]


@pytest.mark.parametrize("name", CASES)
def test_a_member_on_the_gpu_is_the_model_trained_alone_on_the_cpu(name: str) -> None:
    members = [Member(4, CASES[name][1], 1e-3), Member(3, CASES[name][1], 2e-3, seed=5)]
    together, there = trained(name, members, "cuda")
    alone, here = trained(name, members[1:], "cpu")
    wanted = alone.model().state_dict()
    for parameter, value in together.model(1).state_dict().items():
        difference = float((value.cpu() - wanted[parameter]).norm() / wanted[parameter].norm().clamp_min(1e-12))
        assert difference <= 1e-9, parameter
    for ours, theirs in zip(here, there, strict=True):
        assert theirs["types"] == ours["types"]
        assert theirs["rate"] == pytest.approx(ours["rate"], rel=1e-9)
    codes = encode(together.model(1), data_of(name))
    torch.testing.assert_close(codes.mean, encode(alone.model(), data_of(name)).mean, rtol=1e-9, atol=1e-9)


def test_pixels_are_the_same_bits_on_the_gpu() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(scale_pixels(pixels.cuda()).cpu(), scale_pixels(pixels))
