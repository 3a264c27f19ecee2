"""Adam, AMSGrad and Adagrad on vectors of members against torch.optim."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.training.optimisers import BLOCK_SIZE, OPTIMISERS, Adagrad, Adam, AMSGrad, Slots, apply, apply_fused

RATES = (0.05, 0.002)
STEPS = 30
SIZE = 17


def reference(optimiser: Any, parameters: list[Tensor], rate: float) -> torch.optim.Optimizer:
    """The optimiser of torch that ours stands for."""
    if isinstance(optimiser, Adagrad):
        return torch.optim.Adagrad(parameters, lr=rate, eps=optimiser.epsilon)
    betas = (optimiser.beta1, optimiser.beta2)
    amsgrad = isinstance(optimiser, AMSGrad)
    return torch.optim.Adam(parameters, lr=rate, betas=betas, eps=optimiser.epsilon, amsgrad=amsgrad)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(member: int) -> Tensor:
    """Gradients that shrink, so that the largest second moment is not the latest."""
    shrinking = torch.linspace(3, 0.01, STEPS, dtype=torch.float64)[:, None]
    return draw(STEPS, SIZE, seed=10 + member) * shrinking


def trained_by_torch(optimiser: Any, start: Tensor, member: int) -> Tensor:
    parameter = start.clone().requires_grad_()
    stepper = reference(optimiser, [parameter], RATES[member])
    for gradient in gradients(member):
        parameter.grad = gradient
        stepper.step()
    return parameter.detach()


def empty_slots(optimiser: Any, parameters: Tensor) -> Slots:
    return {name: torch.zeros_like(parameters) for name in optimiser.slots}


def trained_by_us(optimiser: Any, start: Tensor, block: int | None) -> Tensor:
    parameters = start.clone()
    slots = empty_slots(optimiser, parameters)
    rate = torch.tensor([[rate] for rate in RATES], dtype=torch.float64)
    for step, gradient in enumerate(torch.stack([gradients(0), gradients(1)], dim=1)):
        apply(optimiser, parameters, gradient, slots, torch.tensor(step), rate, block)
    return parameters


@pytest.mark.parametrize("block", [None, 5])
@pytest.mark.parametrize(
    "optimiser",
    [
        Adam(),
        Adam(0.5, 0.9, 1e-4),
        Adam(0.0, 0.0),
        AMSGrad(),
        AMSGrad(0.5, 0.9, 1e-4),
        Adagrad(),
        Adagrad(1e-3),
    ],
    ids=repr,
)
def test_members_with_their_own_rates_match_torch(optimiser: Any, block: int | None) -> None:
    start = draw(2, SIZE, seed=0)
    ours = trained_by_us(optimiser, start, block)
    for member in range(2):
        theirs = trained_by_torch(optimiser, start[member], member)
        torch.testing.assert_close(ours[member], theirs, rtol=0, atol=1e-12)


def test_every_registered_optimiser_is_compared_with_torch() -> None:
    assert set(OPTIMISERS.values()) == {Adam, AMSGrad, Adagrad}


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
@pytest.mark.parametrize("size", [1, 1000, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 37, 2 * BLOCK_SIZE + 1])
def test_blocks_give_the_numbers_of_one_update(name: str, size: int) -> None:
    optimiser = OPTIMISERS[name]()
    parameters = [draw(2, size, seed=1) for _ in range(2)]
    slots = [empty_slots(optimiser, values) for values in parameters]
    rate = torch.tensor([[1e-2], [1e-3]], dtype=torch.float64)
    for step in range(3):
        gradient = draw(2, size, seed=2 + step)
        optimiser.update(parameters[0], gradient, slots[0], torch.tensor(step), rate)
        apply(optimiser, parameters[1], gradient, slots[1], torch.tensor(step), rate, BLOCK_SIZE)
    assert not torch.equal(parameters[0], draw(2, size, seed=1))
    torch.testing.assert_close(parameters[1], parameters[0], rtol=0, atol=1e-15)
    for slot, values in slots[0].items():
        torch.testing.assert_close(slots[1][slot], values, rtol=0, atol=1e-15)


@dataclasses.dataclass(frozen=True)
class Sign(Adam):
    """A subclass with another formula, which no kernel of torch has."""

    def update(self, parameters: Tensor, gradient: Tensor, slots: Slots, step: Tensor, rate: Tensor) -> None:
        parameters.sub_(rate * gradient.sign())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("optimiser", [Adam(), Adam(0.5, 0.9, 1e-4), AMSGrad(), Adagrad(), Sign()], ids=repr)
def test_fused_kernels_give_the_numbers_of_our_formulas(
    optimiser: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, calls = torch._fused_adam_, []
    monkeypatch.setattr(torch, "_fused_adam_", lambda *given, **named: (calls.append(1), kernel(*given, **named)))
    parameters = [draw(1, SIZE, seed=1).to(dtype) for _ in range(2)]
    slots = [empty_slots(optimiser, values) for values in parameters]
    rate = torch.tensor([[1e-2]], dtype=dtype)
    for step, gradient in enumerate(gradients(0).to(dtype)[:, None]):
        apply(optimiser, parameters[0], gradient, slots[0], torch.tensor(step), rate)
        apply_fused(optimiser, parameters[1], gradient, slots[1], torch.tensor(step), rate)
    assert len(calls) == (STEPS if type(optimiser) in (Adam, AMSGrad) and dtype == torch.float32 else 0)
    assert not torch.equal(parameters[1], draw(1, SIZE, seed=1).to(dtype))
    tolerance = 1e-5 if calls else 0.0
    torch.testing.assert_close(parameters[1], parameters[0], rtol=tolerance, atol=tolerance)
    for slot, values in slots[0].items():
        torch.testing.assert_close(slots[1][slot], values, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_padding_with_zero_gradient_stays_zero(name: str) -> None:
    optimiser = OPTIMISERS[name]()
    parameters = torch.zeros(1, 4)
    slots = empty_slots(optimiser, parameters)
    for step in range(5):
        optimiser.update(parameters, torch.zeros(1, 4), slots, torch.tensor(step), torch.tensor([[0.1]]))
    assert torch.equal(parameters, torch.zeros(1, 4))


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_names_of_slots_are_no_options(name: str) -> None:
    assert "slots" not in {field.name for field in dataclasses.fields(OPTIMISERS[name])}


@pytest.mark.parametrize("optimiser", [Adam, AMSGrad])
@pytest.mark.parametrize("name", ["beta1", "beta2"])
@pytest.mark.parametrize("value", [1.0, 1.5, -0.1, float("nan")])
def test_a_bad_beta_is_named(optimiser: Any, name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} .* got {value}"):
        optimiser(**{name: value})
