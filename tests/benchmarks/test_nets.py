"""The benchmark of nets runs on a CPU with small sizes and gives raw times and ratios as JSON."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SIZES = {"pixels": 16, "items": 20, "batch": 4, "latents": 2, "steps": 2, "rounds": 3}
SMALL = [*(f"--{name}={value}" for name, value in SIZES.items()), "--members", "1", "2", "--eager"]


def test_every_net_gets_raw_times_and_median_ratios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    nets = ["resnet", "conv128", "mlp"]
    runpy.run_path(str(BENCHMARKS / "nets.py"))["main"](
        [*SMALL, "--nets", *nets, "--json", str(tmp_path / "times.json")]
    )
    found = json.loads((tmp_path / "times.json").read_text())
    assert (found["script"], found["origin"]) == ("benchmarks/nets.py", "measured")
    (rows,) = found["tables"].values()
    assert [(row["net"], row["members"]) for row in rows] == [(net, members) for net in nets for members in (1, 2)]
    for row in rows:
        (single,) = (one["milliseconds per step"] for one in found["raw"] if one["net"] == row["net"])
        members = row["members"]
        own = single[f"vaescope, {members} member{'s' * (members > 1)}"]
        ratios = [plain * members / time for plain, time in zip(single["plain loop"], own, strict=True)]
        assert row["median ratio"] == pytest.approx(sorted(ratios)[1])


def test_the_plain_loop_has_torch_layers_that_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch import nn

    from vaescope.models import Architecture
    from vaescope.nets import Conv
    from vaescope.nets.convolution import Convolution, Deconvolution

    monkeypatch.syspath_prepend(BENCHMARKS)
    script = runpy.run_path(str(BENCHMARKS / "nets.py"))
    architecture = Architecture(net=Conv(channels=(4, 6, 6, 8), hidden=8))
    ours, plain = (architecture.build((1, 32, 32), 3, seed=0) for _ in range(2))
    ours, plain = ours.double(), script["with_library_layers"](plain).double()
    kinds = [type(layer) for layer in plain.modules()]
    assert kinds.count(nn.Conv2d) == kinds.count(nn.ConvTranspose2d) == 4
    assert not {Convolution, Deconvolution} & set(kinds)
    x, noise = torch.rand(2, 1, 32, 32).double(), torch.randn(2, 3).double()
    torch.testing.assert_close(script["negative_elbo"](plain, x, noise), script["negative_elbo"](ours, x, noise))
