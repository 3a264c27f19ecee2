"""VGON: codes are gradients, computed per item, and training differentiates through them (Clapham, eq. 6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import MLP, Conv
from vaescope.objectives import Beta, Context
from vaescope.runs import Run, fit
from vaescope.training import Member, Plan, Trainer

LATENTS, ITEMS, STEP = 3, 4, 1e-6
SMOOTH = MLP((), (12,), "tanh", "tanh")
CASES = {
    "image": (Conv((4, 2), (4, 8), 16), (1, 8, 8), "bernoulli"),
    "odd image": (Conv((4, 2), (4, 8), 16), (3, 7, 5), "bernoulli"),
    "vector": (SMOOTH, (6,), {"name": "gaussian", "learned": True}),
}
NEAR: dict[str, float] = {"rtol": 1e-5, "atol": 1e-6}
every_case = pytest.mark.parametrize("case", sorted(CASES))


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(case: str = "vector", latents: int = LATENTS, **options: Any) -> Any:
    net, shape, likelihood = CASES[case]
    described = Architecture({"name": "vgon", **options}, net, likelihood=likelihood, initialisation="torch")
    return described.build(shape, latents, seed=0).double()


def items(case: str, count: int = ITEMS) -> Tensor:
    return draw(count, *CASES[case][1]).sigmoid()


def noise_of(seed: int = 1, count: int = ITEMS) -> dict[str, Tensor]:
    return {"origin": draw(count, LATENTS, seed=seed), "posterior": draw(count, LATENTS, seed=seed + 1)}


@every_case
@pytest.mark.parametrize(("noisy", "scale"), [(True, 1.0), (False, 1.0), (True, 0.125)])
def test_r_is_minus_the_slope_of_the_inner_loss(case: str, noisy: bool, scale: float) -> None:
    model, x = build(case, scale=scale), items(case)
    noise = noise_of() if noisy else None
    drawn = None if noise is None else noise["origin"]
    r = model.representation(x, noise).detach()
    for item in range(ITEMS):
        for latent in range(LATENTS):
            shift = torch.zeros(ITEMS, LATENTS, dtype=torch.float64)
            shift[item, latent] = STEP
            slope = (model.inner_loss(x, shift, drawn) - model.inner_loss(x, -shift, drawn)) / (2 * STEP)
            assert float(r[item, latent]) == pytest.approx(-scale * float(slope.detach()), rel=1e-5, abs=1e-7)


def test_the_inner_loss_is_the_negative_elbo_of_a_pass_from_zero() -> None:
    x, noise = items("vector"), noise_of()["origin"]
    zeros = torch.zeros(ITEMS, LATENTS, dtype=torch.float64)
    for beta in (0.0, 1.0, 4.0):
        model = build(inner_beta=beta)
        mean, log_variance = model.posterior.mean.bias, model.posterior.log_variance.bias
        rate = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
        z = mean + (log_variance / 2).exp() * noise
        expected = beta * ITEMS * rate - model.decode(z).log_prob(x).sum()
        torch.testing.assert_close(model.inner_loss(x, zeros, noise), expected)


@every_case
def test_an_item_has_the_same_code_in_any_batch(case: str) -> None:
    model, x = build(case), items(case, 7)
    together = model.encode(x)
    for size in (1, 3):
        parts = [model.encode(part) for part in x.split(size)]
        torch.testing.assert_close(torch.cat([part.mean for part in parts]), together.mean)
        torch.testing.assert_close(torch.cat([part.variance for part in parts]), together.variance)
    changed = x.clone()
    changed[1:] = 0.5
    torch.testing.assert_close(model.encode(changed).mean[0], together.mean[0])


def loss_of(model: Any, weights: dict[str, Tensor], x: Tensor, noise: dict[str, Tensor]) -> Tensor:
    result = functional_call(model, weights, (x, noise))
    return Beta(2.0)(x, result, Context(torch.tensor(0), 100, model.latent_mask, noise)).loss


@every_case
def test_the_gradient_is_of_second_order(case: str) -> None:
    """By finite differences along a random direction: the part through r is included."""
    model, x, noise = build(case), items(case), noise_of()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    ways = {name: draw(*value.shape, seed=9) for name, value in weights.items()}
    ends = [
        loss_of(model, {name: weights[name] + sign * STEP * ways[name] for name in weights}, x, noise)
        for sign in (1, -1)
    ]
    slope = (ends[0] - ends[1]) / (2 * STEP)
    by_transform = grad(lambda values: loss_of(model, values, x, noise))(weights)
    loss_of(model, dict(model.named_parameters()), x, noise).backward()
    by_autograd = {name: value.grad for name, value in model.named_parameters()}
    for gradient in (by_transform, by_autograd):
        torch.testing.assert_close(sum((gradient[name] * ways[name]).sum() for name in ways), slope.detach(), **NEAR)


@every_case
def test_it_works_batched_over_weights(case: str) -> None:
    model, x, noise = build(case), items(case), noise_of()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    stacked = {name: torch.stack([value, 1.1 * value]) for name, value in weights.items()}
    together = vmap(grad(lambda values: loss_of(model, values, x, noise)))(stacked)
    alone = grad(lambda values: loss_of(model, values, x, noise))(
        {name: 1.1 * value for name, value in weights.items()}
    )
    for name, value in alone.items():
        torch.testing.assert_close(together[name][1], value, rtol=1e-9, atol=1e-11)


@every_case
def test_encoding_needs_no_autograd_and_no_noise(case: str) -> None:
    model, x = build(case), items(case)
    expected = model.encode(x)
    with torch.no_grad():
        posterior = model.encode(x)
    assert torch.equal(posterior.mean, expected.mean)
    quiet = {**noise_of(), "origin": torch.zeros(ITEMS, LATENTS, dtype=torch.float64)}
    torch.testing.assert_close(model(x, quiet).posterior.mean, posterior.mean)
    assert not torch.isclose(model(x, noise_of()).posterior.mean, posterior.mean).any()


def test_r_may_have_another_width_than_the_code() -> None:
    model, x = build(origin=11), items("vector")
    assert model.representation(x, None).shape == (ITEMS, 11)
    assert model.posterior.mean.weight.shape == (LATENTS, 11)
    assert model(x, noise_of()).z.shape == (ITEMS, LATENTS)


def test_a_model_with_another_width_of_r_runs_inside_a_wider_one() -> None:
    model, wider, x = build(origin=11), build(latents=5, origin=11), items("vector")
    for name, value in model.named_parameters():
        room = dict(wider.named_parameters())[name].data
        room[tuple(slice(size) for size in value.shape)] = value.data
    wider.latent_mask[LATENTS:] = 0
    noise = {name: torch.cat([values, draw(ITEMS, 2, seed=7)], 1) for name, values in noise_of().items()}
    torch.testing.assert_close(wider(x, noise).z[:, :LATENTS], model(x, noise_of()).z)


def test_it_has_no_encoder() -> None:
    assert not [name for name, _ in build().named_parameters() if name.startswith("encoder")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"inner_beta": -1.0}, "inner_beta must be a finite number of at least 0, got -1.0"),
        ({"origin": 0}, "origin must be a whole number of at least 1, got 0"),
        ({"scale": 0.0}, "scale must be a finite number above 0, got 0.0"),
        ({"inner_steps": 0}, "inner_steps must be a whole number of at least 1, got 0"),
        (
            {"inner_betta": 1.0},
            "model 'vgon' takes the options inner_beta, origin, scale, inner_steps; got 'inner_b",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        build(**options)


def test_options_are_part_of_the_architecture_and_of_its_id() -> None:
    plain, other = Architecture("vgon"), Architecture({"name": "vgon", "inner_beta": 4.0})
    assert plain != other
    assert Architecture(**other.plain()) == other
    assert replace(other, initialisation="torch").build((1, 8, 8), 2, 0).inner_beta == 4.0
    assert plain.plain()["model"] == "vgon"
    with pytest.raises(ConfigurationError, match=r"'vae' .* 'inner_beta'"):
        Architecture({"name": "vae", "inner_beta": 4.0})


def test_a_run_encodes_its_training_data(tmp_path: Path) -> None:
    rows = draw(200, 2) @ draw(2, 6, seed=3)
    run = fit(rows.numpy(), 4, model="vgon", net=SMOOTH, steps=300, learning_rate=5e-3, runs=tmp_path)
    model: Any = Run.open(run.path).model
    x = rows.float()
    mean = model.decode(model.encode(x).mean.detach()).mean
    assert float((mean - x).square().mean().detach()) < 0.5 * float(x.var())


def test_the_default_initialisation_is_that_of_its_authors() -> None:
    assert Architecture("vgon").initialisation == "torch"
    assert Architecture("vgon", initialisation="glorot").initialisation == "glorot"
    assert Architecture("vae").initialisation == "glorot"
    assert Architecture(**Architecture("vgon").plain()) == Architecture("vgon")


@pytest.mark.parametrize("seed", [0, 1])
def test_training_is_stable_at_a_usual_learning_rate(seed: int) -> None:
    """With Glorot's scheme and unscaled r the rate of these models exceeds 1e9 within ten steps."""
    net = MLP((100, 100), (100, 100), "elu", "elu")
    plan = Plan(100, 32, log_every=10, evaluate_every=100, monitor_every=0)
    member = Member(10, learning_rate=1e-3, seed=seed)
    trainer = Trainer(Architecture("vgon", net), [member], plan, open_dataset("dsprites-small"))
    rates = []
    while not trainer.finished:
        rates += [row.values["rate"] for row in trainer.advance()]
    assert max(rates) < 500, rates
