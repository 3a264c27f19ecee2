"""FactorVAE: the critic learns the density ratio, each side gets its own gradient, members train as if alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta, Context
from vaescope.objectives.total_correlation import SHUFFLE, Factor, critic_loss
from vaescope.training import Member, Plan, Trainer

SMALL = (12, 12)
ARCHITECTURE = Architecture(net=MLP((10,), (10,)), likelihood="gaussian")
PLAN = Plan(40, 16, precision="float64", log_every=10, evaluate_every=20)


def trained(*members: Member, steps: int = 40) -> Trainer:
    data = open_dataset("gaussian-manifold", dimension=3, ambient=8, items=200)
    trainer = Trainer(ARCHITECTURE, members, PLAN, *data.split(0.2))
    while trainer.state.step < steps:
        trainer.advance(steps)
    return trainer


def test_the_critic_learns_the_total_correlation_of_two_correlated_gaussians() -> None:
    correlation, generator = 0.8, torch.Generator().manual_seed(0)
    critic = Factor(critic_widths=(32, 32)).critic(2)
    optimiser = torch.optim.Adam(critic.parameters(), 3e-3)

    def draw(items: int) -> Tensor:
        first, second = torch.randn(2, items, generator=generator)
        return torch.stack([first, correlation * first + math.sqrt(1 - correlation**2) * second], dim=1)

    for _ in range(800):
        optimiser.zero_grad()
        noise = torch.randn(256, 2, generator=generator)
        critic_loss(lambda z, frozen: critic(z), draw(256), noise).mean().backward()
        optimiser.step()
    z = draw(20_000)
    with torch.no_grad():
        logits = critic(z)
    ratio = logits[:, 0] - logits[:, 1]
    x, y = z[:, 0], z[:, 1]
    exact = -0.5 * math.log(1 - correlation**2) - (
        (correlation**2 * (x**2 + y**2) - 2 * correlation * x * y) / (2 * (1 - correlation**2))
    )
    assert float(ratio.mean()) == pytest.approx(-0.5 * math.log(1 - correlation**2), abs=0.06)
    assert float(torch.corrcoef(torch.stack([ratio, exact]))[0, 1]) > 0.95


def test_the_model_and_the_critic_get_their_own_gradients_only() -> None:
    trainer = trained(Member(3, Factor(7.0, critic_widths=SMALL)), steps=5)
    ensemble, vector = trainer.ensemble, trainer.state.parameters[0].clone().requires_grad_()
    x = trainer.data.batch(torch.arange(16)).double()
    generator = torch.Generator().manual_seed(1)
    noise = {name: torch.randn(16, width, generator=generator).double() for name, width in ensemble.noise.items()}
    values = {name: value[0] for name, value in ensemble.inputs.strengths.items()}
    _, (terms, _) = ensemble.loss(vector, {}, ensemble.inputs.masks[0], values, x, noise, torch.tensor(0))
    (whole,) = torch.autograd.grad(terms["loss"], vector, retain_graph=True)
    (critic,) = torch.autograd.grad(terms["critic"], vector, retain_graph=True)
    model_loss = terms["reconstruction"] + terms["rate"] + 7.0 * terms["total_correlation"]
    (model,) = torch.autograd.grad(model_loss, vector)
    of_loss, of_model, of_critic = (ensemble.layout.unpack(gradient) for gradient in (whole, model, critic))
    for parts, own, others in (
        (of_loss.model, of_model.model, of_critic.model),
        (of_loss.critic, of_critic.critic, of_model.critic),
    ):
        for name, part in parts.items():
            torch.testing.assert_close(part, own[name])
            assert part.any(), name
            assert not others[name].any(), name


def test_members_of_an_ensemble_equal_models_trained_alone_and_their_state_has_the_critic() -> None:
    members = (
        Member(2, Factor(5.0, critic_widths=SMALL), 1e-3, 0),
        Member(4, Factor(1.0, 1e-3, critic_widths=SMALL), 1e-3, 3),
    )
    together = trained(*members)
    for place, member in enumerate(members):
        alone, mine = trained(member).member_state(0), together.member_state(place)
        torch.testing.assert_close(mine.parameters, alone.parameters, rtol=1e-9, atol=1e-12)
    state = trained(*members, steps=20).state.copy()
    resumed = trained(*members, steps=10)
    resumed.load(state)
    while not resumed.finished:
        resumed.advance()
    torch.testing.assert_close(resumed.state.parameters, together.state.parameters, rtol=0, atol=0)


def test_without_its_weight_the_model_is_the_vae() -> None:
    critical = trained(Member(3, Factor(0.0, critic_widths=SMALL), 1e-3))
    plain = trained(Member(3, Beta(1.0), 1e-3))
    for (name, mine), (_, theirs) in zip(
        critical.model().state_dict().items(), plain.model().state_dict().items(), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12, msg=name)


def test_the_critic_has_a_separate_optimiser() -> None:
    still = trained(Member(3, Factor(1.0, 0.0, critic_widths=SMALL), 1e-3))
    begun = trained(Member(3, Factor(1.0, 0.0, critic_widths=SMALL), 1e-3), steps=1)
    layout = still.ensemble.layout
    ended, before = (layout.unpack(one.state.parameters[0]) for one in (still, begun))
    assert all(torch.equal(weight, before.critic[name]) for name, weight in ended.critic.items())
    assert not any(torch.equal(weight, before.model[name]) for name, weight in ended.model.items())


def test_a_missing_critic_raises_an_error_that_says_how_to_train() -> None:
    trainer = trained(Member(3), steps=1)
    x = trainer.data.batch(torch.arange(4)).double()
    noise = {"posterior": torch.zeros(4, 3).double(), SHUFFLE: torch.zeros(4, 3).double()}
    result = trainer.model()(x, noise)
    with pytest.raises(ConfigurationError, match="needs its critic"):
        Factor()(x, result, Context(torch.tensor(0), 10, torch.ones(3), noise))
    assert trainer.ensemble.critic is None


@pytest.mark.parametrize("settings", [{"gamma": -1}, {"critic_rate": math.nan}, {"critic_widths": (0,)}])
def test_invalid_settings_are_named(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Factor(**settings)
