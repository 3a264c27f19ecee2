"""Models of other libraries without their passive latents: the same reconstructions from fewer numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import LATENTS, SHAPE, Base, Hierarchical, WithBatchNorm, normal
from test_wrap import same, snapshot
from torch import Tensor, nn

import vaescope as vs
from vaescope.encoding import decode, reconstruct, sample, traverse
from vaescope.encoding.wrap import WrappedModel
from vaescope.errors import ConfigurationError, LatentError, UnknownNameError
from vaescope.runs import fit

X = torch.from_numpy(np.random.default_rng(0).random((300, *SHAPE), dtype=np.float32))
# Active, passive, mixed, active; the passive latent always says 0.02.
LOG_VARIANCES = torch.tensor([-5.0, 0.0, -1.0, -4.0])
PASSIVE, HELD = 1, 0.02


class Plain(Base):
    """A VAE with methods, of whose latents one is passive; the decoder may ignore it."""

    def __init__(self, ignored: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        for layer in (self.layer, self.back):
            layer.reset_parameters()
        if ignored:
            with torch.no_grad():
                self.back.weight[:, PASSIVE] = 0

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean = 5 * super().moments(x)[0]
        constant = torch.full_like(mean[:, :1], HELD) + 1e-3 * mean[:, 1:2]
        return torch.cat([mean[:, :1], constant, mean[:, 2:]], 1), LOG_VARIANCES.expand(len(x), -1)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.moments(x)

    def decode(self, z: Tensor) -> Tensor:
        return self.items(z)


class Spatial(WithBatchNorm):
    """A convolutional VAE with batch normalisation, of whose three channels the second is passive."""

    def encode(self, x: Tensor) -> torch.distributions.Distribution:
        mean, log_variance = self.heads(self.encoder(x)).chunk(2, 1)
        on = torch.tensor([1.0, 0.0, 1.0]).reshape(1, 3, 1, 1).to(mean)
        return normal(3 * mean * on + HELD * (1 - on), (log_variance - 4) * on)


def function_pair() -> WrappedModel:
    """A pair of functions without a module; items are vectors of four numbers, and the second latent is passive."""

    def encode(x: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.stack([10 * x[:, 0], 0 * x[:, 0] + HELD, 10 * x[:, 1]], 1)
        return mean, torch.tensor([0.01, 1.0, 0.01]).expand(len(x), -1)

    def decoded(z: Tensor) -> Tensor:
        return torch.stack([z[:, 0] + z[:, 1], z[:, 2] - z[:, 1], z[:, 0], z[:, 1]], 1)

    return vs.wrap(encode, decode=decoded, name="pair")


MODELS: dict[str, tuple[Callable[[], Any], Tensor, tuple[int, ...]]] = {
    "methods": (Plain, X, (0, 2, 3)),
    "spatial": (Spatial, X, (0, 2)),
    "flat": (lambda: vs.wrap(Spatial(), latents="flat"), X, tuple(range(16)) + tuple(range(32, 48))),
    "functions": (function_pair, X[:, 0, 0, :4], (0, 2)),
    "logits": (lambda: vs.wrap(Plain(), likelihood="bernoulli"), X, (0, 2, 3)),
}


def whole_with_constants(model: Any, x: Tensor, kept: tuple[int, ...]) -> Tensor:
    """What the whole model decodes if the means of the other latents are replaced by their average."""
    wrapped = model if isinstance(model, WrappedModel) else vs.wrap(model)
    mean = wrapped.encode(x).mean
    axes = tuple(axis for axis in range(mean.ndim) if axis != 1)
    average = mean.mean(axes, keepdim=True).expand_as(mean)
    held = [latent for latent in range(mean.shape[1]) if latent not in kept]
    mean = mean.index_copy(1, torch.tensor(held), average[:, held])
    return wrapped.decode(mean).mean


@pytest.mark.parametrize(("make", "x", "kept"), MODELS.values(), ids=MODELS)
def test_the_others_are_held_at_their_mean(make: Callable[[], Any], x: Tensor, kept: tuple[int, ...]) -> None:
    model = make()
    found = vs.prune(model, x)
    assert found.kept == kept
    assert found.model.latents == len(kept)
    torch.testing.assert_close(reconstruct(found.model, x), whole_with_constants(model, x, kept), rtol=0, atol=1e-4)
    whole, codes = vs.encode(model, x), vs.encode(found.model, x)
    torch.testing.assert_close(codes.mean, whole.mean[:, list(kept)])
    torch.testing.assert_close(codes.variance, whole.variance[:, list(kept)])
    assert codes.positions == whole.positions
    types = vs.diagnose(model, x).types.types
    assert vs.diagnose(found.model, x).types.types == tuple(types[latent] for latent in kept)


def test_where_the_decoder_ignores_passive_latents_reconstructions_stay() -> None:
    model = Plain(ignored=True)
    found = vs.prune(model, X)
    torch.testing.assert_close(reconstruct(found.model, X), reconstruct(model, X), rtol=0, atol=1e-4)
    assert found.max_difference < 1e-6
    assert found.error == pytest.approx(found.original_error, rel=1e-6)


def test_the_rate_of_spatial_codes_is_that_of_a_position() -> None:
    model = WithBatchNorm()
    assert vs.prune(model, X, keep=[0, 2]).summary().endswith("nats per position.")
    assert vs.prune(vs.wrap(model, latents="flat"), X, keep=[0, 2]).summary().endswith("nats.")


def test_the_numbers_of_the_result_are_those_of_the_reconstructions() -> None:
    model = Plain()
    found = vs.prune(model, X, keep="active")
    assert (found.kept, found.dropped, found.items) == ((0, 3), (1, 2), 300)
    ours, theirs = reconstruct(found.model, X), reconstruct(model, X)
    assert found.mean_difference == pytest.approx(float((ours - theirs).abs().mean()), rel=1e-4)
    assert found.max_difference == pytest.approx(float((ours - theirs).abs().max()), rel=1e-4)
    assert found.error == pytest.approx(float((ours - X).square().mean()), rel=1e-4)
    assert found.original_error == pytest.approx(float((theirs - X).square().mean()), rel=1e-4)
    rows = found.rows()
    assert [row["now"] for row in rows] == [0, None, None, 1]
    assert found.fill[PASSIVE] == pytest.approx(float(vs.encode(model, X).mean[:, PASSIVE].mean()))
    assert found.original_rate - found.rate == pytest.approx(rows[1]["kl"] + rows[2]["kl"])
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["model"] == "Plain (2 of 4 latents)"
    assert found.summary().startswith("2 of the 4 latents of Plain are kept. Over 300 items")
    assert "1 mixed latents were dropped" in found.summary()


def test_a_pruned_model_is_pruned_further() -> None:
    model = Plain()
    first = vs.prune(model, X)
    second = vs.prune(first.model, X, keep="active")
    assert second.kept == (0, 2)
    both = vs.prune(model, X, keep=[0, 3]).model
    torch.testing.assert_close(reconstruct(second.model, X), reconstruct(both, X), rtol=0, atol=1e-5)
    assert second.model.module is model
    assert "cut to 2 of 3 latents" in second.model.summary()


@pytest.mark.parametrize("make", [Plain, Spatial])
def test_a_pruned_model_goes_where_models_go(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    model = make()
    small = vs.prune(model, X[:60]).model
    kept = small.latents
    assert sample(small, 3).shape == (3, *SHAPE)
    assert vs.compare([model, small], X[:60], layers=True).names == (
        type(model).__name__,
        f"{type(model).__name__} ({kept} of {kept + 1} latents)",
    )
    codes = vs.encode(small, X[:2])
    assert decode(small, codes.code(1)[None]).shape == (1, *SHAPE)
    assert traverse(small, codes.code(0), 1, [0.0, 1.0]).shape == (2, *SHAPE)
    vs.report(small, tmp_path / "report.html", X[:60])
    assert "held at constants" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("training", [True, False])
def test_the_module_does_not_change(training: bool) -> None:
    model = Spatial().train(training)
    model.heads.eval()
    model.decode(model.encode(X[:8]).mean).sum().backward()
    before = snapshot(model)
    small = vs.prune(model, X).model
    reconstruct(small, X)
    after = snapshot(model)
    assert small.module is model
    # beartype, which checks shapes in tests, draws from `random` by itself.
    assert [part for part in before if part != "python" and not same(before[part], after[part])] == []


def test_training_the_module_changes_the_pruned_model_too() -> None:
    model = Plain()
    small = vs.prune(model, X).model
    before = reconstruct(small, X)
    with torch.no_grad():
        model.back.bias += 1
    assert not torch.allclose(reconstruct(small, X), before)


def test_half_precision_stays() -> None:
    model = Plain().bfloat16()
    small = vs.prune(model, X).model
    assert next(small.parameters()).dtype == torch.bfloat16
    torch.testing.assert_close(reconstruct(small, X), reconstruct(model, X), rtol=0, atol=0.02)


def test_nothing_to_drop_gives_the_model_itself() -> None:
    wrapped = vs.wrap(Plain())
    found = vs.prune(wrapped, X, keep=range(LATENTS))
    assert found.model is found.original is wrapped
    assert "All 4 latents of Plain are kept; nothing to prune." in found.summary()
    assert (found.max_difference, found.dropped) == (0, ())


class AllPassive(Plain):
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(x), LATENTS), torch.zeros(len(x), LATENTS) - 1e-6


REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no decoder": (
        lambda x: (x.flatten(1), x.flatten(1)),
        {},
        ConfigurationError,
        r"cannot decode.*decode= to vs\.wrap",
    ),
    "groups": (Hierarchical(), {}, ConfigurationError, r"2 \(upper, lower\).*vs\.wrap"),
    "all passive": (AllPassive(), {}, LatentError, "AllPassive must have at least one latent"),
    "a number too large": (Plain(), {"keep": [4]}, LatentError, "from 0 to 3"),
    "another word": (Plain(), {"keep": "all"}, UnknownNameError, "active, used"),
}


@pytest.mark.parametrize(("model", "options", "kind", "facts"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_pruned_gets_one_sentence(
    model: Any, options: dict[str, Any], kind: type[Exception], facts: str
) -> None:
    with pytest.raises(kind, match=facts) as caught:
        vs.prune(model, X, **options)
    assert "\n" not in str(caught.value)


def test_a_model_of_this_library_is_pruned_as_a_run(tmp_path: Path) -> None:
    run = fit("digits", 3, net={"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}, steps=2, runs=tmp_path)
    with pytest.raises(ConfigurationError, match="Pass its run"):
        vs.prune(run.model, "digits")
    assert vs.prune(run, keep=[0]).model.latent_mask.shape == (1,)
