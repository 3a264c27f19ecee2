"""Exported models of other libraries, also pruned ones, give the same results as PyTorch for any number of items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.encoding import WrappedModel
from vaescope.errors import ConfigurationError, DataError, RunError
from vaescope.runs import onnx_files

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("onnx_operators")

X = torch.from_numpy(np.random.default_rng(0).random((80, 1, 8, 8), dtype=np.float32))


class Convolutional(nn.Module):
    """A VAE with batch normalisation and dropout; the second of its three channels is passive."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2))
        self.heads, self.back = nn.Conv2d(8, 6, 1), nn.ConvTranspose2d(3, 1, 4, 2, 1)
        self.register_buffer("on", torch.tensor([1.0, 0.0, 1.0]).reshape(1, 3, 1, 1))

    def encode(self, x: Tensor) -> torch.distributions.Distribution:
        mean, log_variance = self.heads(self.net(x)).chunk(2, 1)
        return torch.distributions.Normal(3 * mean * self.on, ((log_variance - 4) / 2 * self.on).exp())

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.back(z))


class Forward(nn.Module):
    """A VAE with only a forward pass, which draws random numbers; its decoder is an attribute."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.decoder = nn.Linear(64, 8), nn.Linear(4, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.layer(x.flatten(1)).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(z), mean, log_variance


def pair() -> WrappedModel:
    """Functions that use modules from outside."""
    model = Forward()

    def encode(x: Tensor) -> dict[str, Tensor]:
        mean, log_variance = model.layer(x.flatten(1)).chunk(2, 1)
        return {"mean": mean, "log_variance": log_variance}

    return vs.wrap(encode, decode=lambda z: model.decoder(z), likelihood="bernoulli", name="pair")


MODELS: dict[str, Callable[[], Any]] = {
    "channels": Convolutional,
    "in training": lambda: Convolutional().train(),
    "flat": lambda: vs.wrap(Convolutional(), latents="flat"),
    "forward": Forward,
    "functions": pair,
    "pruned channels": lambda: vs.prune(Convolutional(), X).model,
    "pruned flat": lambda: vs.prune(vs.wrap(Convolutional(), latents="flat"), X).model,
    "pruned functions": lambda: vs.prune(pair(), X, keep=[0, 3]).model,
    "pruned twice": lambda: vs.prune(vs.prune(Forward(), X, keep=[0, 1, 3]).model, X, keep=[2]).model,
}


def answers(path: Path, **given: Tensor) -> list[Tensor]:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    found = session.run(None, {name: value.numpy() for name, value in given.items()})
    return [torch.from_numpy(one) for one in found]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_exported_files_equal_pytorch(make: Callable[[], Any], tmp_path: Path) -> None:
    made = make()
    model = made if isinstance(made, WrappedModel) else vs.wrap(made)
    found = vs.export(model, tmp_path / "files", data=X, check_items=20)
    assert [file.path for file in found.files] == [tmp_path / "files" / f"{name}coder.onnx" for name in ("en", "de")]
    assert [(list(file.inputs), file.outputs) for file in found.files] == [
        (["x"], ("mean", "variance")),
        (["z"], ("x",)),
    ]
    assert max(file.max_difference for file in found.files) <= 1e-5
    x = X[70:75]  # a number of items that was neither traced nor checked
    posterior = model.encode(x)
    mean, variance = answers(found.files[0].path, x=x)
    torch.testing.assert_close(mean, posterior.mean.float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(variance, posterior.variance.float(), rtol=0, atol=1e-5)
    (items,) = answers(found.files[1].path, z=mean)
    torch.testing.assert_close(items, model.decode(posterior.mean).mean, rtol=0, atol=1e-5)
    assert items.shape == x.shape
    for file in found.files:
        graph = onnx.load(file.path).graph
        assert {value.type.tensor_type.elem_type for value in graph.input} == {onnx.TensorProto.FLOAT}
        assert "DOUBLE" not in str(graph)
        assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "items"
        assert str(Path(onnx_files.__file__).parent.parent).encode() not in file.path.read_bytes()


def test_the_summary_names_the_files(tmp_path: Path) -> None:
    found = vs.export(vs.prune(Convolutional(), X).model, tmp_path, data=X)
    assert [row["inputs"] for row in found.rows()] == ["x (1 x 8 x 8)", "z (2 x 4 x 4)"]
    assert found.summary().startswith("Convolutional (2 of 3 latents) as encoder.onnx and decoder.onnx: within ")
    assert found.plain()["model"] == "Convolutional (2 of 3 latents)"
    assert found.items == 64


@pytest.mark.parametrize("precision", [torch.float64, torch.float16])
def test_a_model_of_another_precision_is_exported_in_single(precision: torch.dtype, tmp_path: Path) -> None:
    model = Forward().to(precision).train()
    model.layer.weight.requires_grad_(False)
    model.layer.bias.grad = torch.ones_like(model.layer.bias)
    before = {name: (id(value), value.clone()) for name, value in model.named_parameters()}
    random = torch.get_rng_state()
    found = vs.export(model, tmp_path, data=X)
    for name, value in model.named_parameters():
        assert value.dtype == precision
        assert id(value) == before[name][0]
        assert torch.equal(value, before[name][1])
    assert model.layer.bias.grad is not None
    assert model.layer.bias.grad.dtype == precision
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    mean, _ = answers(found.files[0].path, x=X[:5])
    torch.testing.assert_close(mean, vs.encode(model, X[:5]).mean.float(), rtol=0, atol=2e-2)


def test_a_model_without_a_decoder_exports_its_encoder_with_the_reason(tmp_path: Path) -> None:
    found = vs.export(vs.wrap(lambda x: (x.flatten(1), x.flatten(1)), name="mine"), tmp_path, data=X)
    assert [file.path.name for file in found.files] == ["encoder.onnx"]
    assert "There is no decoder.onnx: it has no method decode or decoder." in found.summary()


def test_a_model_of_this_library_without_a_run_is_exported_too(tmp_path: Path) -> None:
    net = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
    run = vs.fit("digits", 3, net=net, steps=2, batch=8, runs=tmp_path, device="cpu")
    found = vs.export(run.model, tmp_path / "files", data="digits")
    assert [file.max_difference < 1e-5 for file in found.files] == [True, True]


class Large(Forward):
    """A model that computes in another way for 8 items or more, with the same result up to `change`."""

    def __init__(self, change: float = 0.0) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        decoded, mean, log_variance = super().forward(x)
        return (decoded, mean + self.change, log_variance) if x.shape[0] >= 8 else (decoded, mean, log_variance)


def test_a_model_that_computes_differently_for_many_items_is_checked_there(tmp_path: Path) -> None:
    assert vs.export(Large(), tmp_path / "same", data=X, check_items=5).files[0].max_difference < 1e-5
    with pytest.raises(RunError, match=r"encoder\.onnx must be within .* differs by 0\.25"):
        vs.export(Large(0.25), tmp_path / "other", data=X, check_items=5)


def by_numpy(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    flat = x.numpy().reshape(len(x), -1)
    return flat[:, :4], flat[:, 4:8] ** 2


class PerItem(Forward):
    """A model whose control flow depends on the values of an item."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().forward(x if x.sum() > 0 else -x)


class FixedBatch(Forward):
    """A model that works only for some batch sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if len(x) == 3:
            raise ValueError("three is too few")
        return super().forward(x)


class Strict(Forward):
    """A model that does more than change its mode, which programs that were exported do not allow."""

    def train(self, mode: bool = True) -> Strict:
        raise NotImplementedError("no other mode")


def test_the_mode_is_set_without_methods_of_the_model(tmp_path: Path) -> None:
    assert max(file.max_difference for file in vs.export(Strict(), tmp_path, data=X).files) <= 1e-5


class Random(Forward):
    """A model whose dropout is on in evaluation mode, too."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().forward(nn.functional.dropout(x, 0.5, training=True))


class OfTheBatch(Forward):
    """A model with batch normalisation without running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(64, track_running_stats=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().forward(self.norm(x.flatten(1)))


class Infinite(Forward):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        decoded, mean, log_variance = super().forward(x)
        return decoded, mean * float("nan"), log_variance


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.layer(x.flatten(1)).chunk(2, 1)
        return mean, log_variance


class Groups(Forward):
    def encode(self, x: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        found = self.layer(x.flatten(1)).chunk(4, 1)
        return {"upper": found[:2], "lower": found[2:]}


REFUSED: dict[str, tuple[Any, str]] = {
    "numpy": (by_numpy, r"by_numpy cannot be exported: its encoder must consist of operations of torch.*encode"),
    "numbers decide": (PerItem(), r"PerItem cannot be exported: its encoder must .*vs\.wrap"),
    "number of items": (FixedBatch(), "FixedBatch cannot be exported.*three is too few"),
    "random numbers": (Random(), "Random cannot be exported: its encoder draws random numbers"),
    "other items": (OfTheBatch(), "OfTheBatch cannot be exported: its encoder gives an item other results next to"),
    "not finite": (Infinite(), "Infinite cannot be exported: its encoder returns numbers that are not finite"),
    "groups": (Groups(), r"one group of latents .* 2 \(upper, lower\)"),
}


@pytest.mark.parametrize(("model", "facts"), REFUSED.values(), ids=REFUSED)
def test_unsupported_models_are_one_sentence(
    model: Any, facts: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match=facts) as caught:
        vs.export(model, tmp_path / "files", data=X)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "files").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_of_torchscript_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Scripted cannot be exported: it is a program of TorchScript"):
        vs.export(torch.jit.trace(Scripted(), X[:3]), tmp_path, data=X)


def test_a_model_needs_a_folder_and_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Pass folder"):
        vs.export(Forward(), data=X)  # type: ignore[call-overload]
    with pytest.raises(DataError, match="Pass data"):
        vs.export(Forward(), tmp_path)  # type: ignore[call-overload]


def test_a_file_beyond_the_tolerance_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Near(onnx_files.Traced):
        def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(value + 3e-5 for value in super().forward(*inputs))

    monkeypatch.setattr(onnx_files, "Traced", Near)
    with pytest.raises(RunError, match=r"encoder\.onnx .*tolerance"):
        vs.export(Forward(), tmp_path / "files", data=X)
    assert not (tmp_path / "files").exists()
    assert vs.export(Forward(), tmp_path / "files", data=X, tolerance=1e-3).files[0].max_difference > 2e-5
