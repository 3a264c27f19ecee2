"""VGON with several inner gradient steps, and codes with the noise of these steps (Clapham, eq. 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad

import vaescope as vs
from vaescope.encoding.encode import ModelInputs
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta, Context

LATENTS, ITEMS, SIZE = 3, 5, 6
SMOOTH = MLP((), (12,), "tanh", "tanh")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(steps: int, latents: int = LATENTS, **options: object) -> Any:
    likelihood = {"name": "gaussian", "learned": True}
    described = Architecture({"name": "vgon", "inner_steps": steps, **options}, SMOOTH, likelihood=likelihood)
    return described.build((SIZE,), latents, seed=0).double()


def noise_of(model: Any, seed: int = 1) -> dict[str, Tensor]:
    return {name: draw(ITEMS, width, seed=seed + place) for place, (name, width) in enumerate(model.noise.items())}


@pytest.mark.parametrize("scale", [0.125, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_r_is_where_plain_gradient_descent_ends(steps: int, scale: float) -> None:
    model, x = build(steps, scale=scale), draw(ITEMS, SIZE)
    noise = noise_of(model)
    streams = [name for name in noise if name != "posterior"]
    assert streams == ["origin", "origin 2", "origin 3", "origin 4"][:steps]
    for given in (noise, None):
        r = torch.zeros(ITEMS, LATENTS, dtype=torch.float64)
        for stream in streams:
            start = r.clone().requires_grad_()
            (slope,) = torch.autograd.grad(model.inner_loss(x, start, None if given is None else given[stream]), start)
            r = r - scale * slope
        torch.testing.assert_close(model.representation(x, given), r)


def test_small_steps_lower_the_inner_loss() -> None:
    x, losses = draw(ITEMS, SIZE), []
    for steps in (1, 3, 9):
        model = build(steps, scale=0.01)
        losses.append(float(model.inner_loss(x, model.representation(x, None), None).detach()))
    assert losses == sorted(losses, reverse=True)
    assert losses[0] - losses[-1] > 1e-3


def test_an_item_has_the_same_code_in_any_batch_and_without_autograd() -> None:
    model, x = build(3), draw(ITEMS, SIZE)
    together = model.encode(x).mean
    with torch.no_grad():
        apart = torch.cat([model.encode(item).mean for item in x.split(1)])
    torch.testing.assert_close(apart, together)


def loss_of(model: Any, weights: dict[str, Tensor], x: Tensor, noise: dict[str, Tensor]) -> Tensor:
    result = functional_call(model, weights, (x, noise))
    return Beta(2.0)(x, result, Context(torch.tensor(0), 100, model.latent_mask, noise)).loss


def test_the_gradient_of_training_passes_through_every_step() -> None:
    model, x = build(2), draw(ITEMS, SIZE)
    noise, step = noise_of(model), 1e-6
    weights = {name: value.detach() for name, value in model.named_parameters()}
    ways = {name: draw(*value.shape, seed=9) for name, value in weights.items()}
    ends = [
        loss_of(model, {name: weights[name] + sign * step * ways[name] for name in weights}, x, noise)
        for sign in (1, -1)
    ]
    gradient = grad(lambda values: loss_of(model, values, x, noise))(weights)
    slope = sum((gradient[name] * ways[name]).sum() for name in ways)
    torch.testing.assert_close(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_it_runs_exactly_inside_a_wider_model() -> None:
    model, wider, x = build(2), build(2, latents=5), draw(ITEMS, SIZE)
    for name, value in model.named_parameters():
        room = dict(wider.named_parameters())[name].data
        room[tuple(slice(size) for size in value.shape)] = value.data
    wider.latent_mask[LATENTS:] = 0
    noise = noise_of(model)
    wide_noise = {name: torch.cat([values, draw(ITEMS, 2, seed=7)], 1) for name, values in noise.items()}
    torch.testing.assert_close(wider(x, wide_noise).z[:, :LATENTS], model(x, noise).z)


def test_the_setting_is_part_of_a_run_only_where_it_is_given(tmp_path: Path) -> None:
    assert Architecture("vgon").plain()["model"] == "vgon"
    rows = draw(60, SIZE).numpy()
    short: dict[str, Any] = {"net": SMOOTH, "steps": 4, "runs": tmp_path, "progress": False, "device": "cpu"}
    one = vs.fit(rows, 2, model="vgon", **short)
    two = vs.fit(rows, 2, model={"name": "vgon", "inner_steps": 2}, **short)
    assert one.id != two.id
    opened: Any = vs.load(two.id, tmp_path).model
    assert list(opened.noise) == ["origin", "origin 2", "posterior"]
    assert not torch.equal(one.encode(rows).mean, two.encode(rows).mean)


def test_codes_with_noise_are_those_of_training() -> None:
    model, rows = build(2).float().eval(), draw(40, SIZE).float().numpy()
    quiet = vs.encode(model, rows)
    noisy = vs.encode(model, rows, inner_noise=True)
    for name in ("mean", "variance", "sample"):
        assert not torch.isclose(getattr(noisy, name), getattr(quiet, name)).all(1).any()
    again = vs.encode(model, rows, inner_noise=True, chunk=7)
    torch.testing.assert_close(again.mean, noisy.mean)
    torch.testing.assert_close(again.sample, noisy.sample)
    assert not torch.isclose(vs.encode(model, rows, inner_noise=True, seed=1).mean, noisy.mean).all(1).any()
    # The posterior is that of a forward pass with the same noise.
    inputs = ModelInputs(model, vs.open_dataset(rows))
    index = torch.arange(40)
    passed = model(torch.from_numpy(rows), inputs.noise(model.noise, index)).posterior
    torch.testing.assert_close(noisy.mean, passed.mean.detach())
    torch.testing.assert_close(noisy.variance, passed.variance.detach())


def test_the_similarity_of_noisy_codes_of_a_model_with_itself_is_below_1() -> None:
    """Heatmaps of a VGON with itself have 1 on their diagonal only if no noise is drawn (Clapham, section IV-D)."""
    model, rows = build(1, scale=1.0).float().eval(), draw(200, SIZE).float().numpy()
    one, two = (vs.encode(model, rows, inner_noise=True, seed=seed).mean for seed in (0, 1))
    quiet = vs.encode(model, rows).mean
    assert float(vs.similarity.linear_cka(quiet, vs.encode(model, rows, seed=1).mean)) == pytest.approx(1)
    assert 0 < float(vs.similarity.linear_cka(one, two)) < 0.99


def test_other_models_have_no_inner_noise() -> None:
    model = Architecture(net=SMOOTH, likelihood="gaussian").build((SIZE,), 2, seed=0)
    with pytest.raises(ConfigurationError, match="such as a VGON, got VAE"):
        vs.encode(model, draw(9, SIZE).float().numpy(), inner_noise=True)
