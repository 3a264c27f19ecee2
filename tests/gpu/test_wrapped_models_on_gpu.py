"""Models of other libraries on a GPU: data on the CPU go to the model, codes come back, and the model stays."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

import vaescope as vs

X = torch.rand(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8))
        self.decoder = nn.Sequential(nn.Linear(4, 64), nn.Unflatten(1, (1, 8, 8)))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)


def places(model: nn.Module) -> set[str]:
    return {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}


def test_a_model_on_a_gpu_is_encoded_there_and_stays_there(tmp_path: Path) -> None:
    model, on_cpu = Plain().cuda(), Plain()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.cuda.get_rng_state()
    codes, wanted = vs.encode(model, X), vs.encode(on_cpu, X)
    assert codes.mean.device.type == "cpu"
    torch.testing.assert_close(codes.mean, wanted.mean, rtol=1e-4, atol=1e-4)
    assert vs.diagnose(model, X).types.types == vs.diagnose(on_cpu, X).types.types
    vs.report(model, tmp_path / "report.html", X)
    assert places(model) == {"cuda"}
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.cuda.get_rng_state(), random)


def test_a_model_is_moved_to_the_requested_device_and_back() -> None:
    model = Plain()
    before = copy.deepcopy(model.state_dict())
    codes = vs.encode(vs.wrap(model, device="cuda"), X)
    torch.testing.assert_close(codes.mean, vs.encode(model, X).mean, rtol=1e-4, atol=1e-4)
    assert places(model) == {"cpu"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
