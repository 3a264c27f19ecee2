"""On a GPU: the same types from the same codes, and the same probes of the monitor as on the CPU."""

from __future__ import annotations

import pytest
import torch

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.regime import collapse, mean_and_sampled, mutual_information_bound, variable_types
from vaescope.training import Member, Plan, Trainer


def codes(device: str) -> Representation:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(4000, 6, generator=generator)
    variance = torch.tensor([0.01, 0.05, 1.0, 1.0, 0.5, 0.02]).expand(4000, 6) + 0.01 * noise.abs()
    mean = torch.randn(4000, 6, generator=generator) * torch.tensor([1.0, 1.0, 0.01, 0.01, 0.5, 1.0])
    return Representation(*(part.to(device) for part in (mean, variance, mean + variance.sqrt() * noise)))


def test_the_same_codes_give_the_same_results_on_both_devices() -> None:
    here, there = codes("cpu"), codes("cuda")
    types = variable_types(here)
    assert variable_types(there).types == types.types == ("active", "active", "passive", "passive", "mixed", "active")
    assert variable_types(there, chunk=333).rows() == [pytest.approx(row) for row in types.rows()]
    assert collapse(there).rates == pytest.approx(collapse(here).rates, rel=1e-12)
    for ours, theirs in zip(mean_and_sampled(here, types).rows(), mean_and_sampled(there, types).rows(), strict=True):
        assert theirs == pytest.approx(ours, rel=1e-9)
    information = [mutual_information_bound(part.mean, part.variance, part.sample) for part in (here, there)]
    assert information[1].information == pytest.approx(information[0].information, rel=1e-9)


def test_the_monitor_sees_the_same_on_both_devices() -> None:
    members = (Member(3, Beta(1.0), 1e-3), Member(6, Beta(4.0), 1e-3, seed=3))
    plan = Plan(40, 32, precision="float64", log_every=20, evaluate_every=40, monitor_every=20)
    rows_by_device = []
    for device in ("cpu", "cuda"):
        data = open_dataset("dsprites-small").split(0.1)
        trainer = Trainer(Architecture(net=MLP((20,), (20,))), members, plan, *data, device)
        rows = [row for _ in range(2) for row in trainer.advance() if row.split == "probe"]
        rows_by_device.append([row.values for row in rows])
    for here, there in zip(*rows_by_device, strict=True):
        assert there["types"] == here["types"]
        for name in ("correlations", "rates"):
            assert there[name] == pytest.approx(here[name], abs=2e-4)
