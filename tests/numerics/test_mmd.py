"""The maximum mean discrepancy of each latent: a double loop, equal and different codes."""

from __future__ import annotations

import torch
from torch import Tensor

from vaescope.numerics.mmd import latent_mmd


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(one: list[float], other: list[float]) -> float:
    """The discrepancy of one latent, pair by pair."""

    def similarity(a: float, b: float) -> float:
        return sum(c / (c + (a - b) ** 2) for c in (0.2, 0.4, 1.0, 2.0, 4.0, 10.0))

    total = 0.0
    for codes in (one, other):
        pairs = [(i, j) for i in range(len(codes)) for j in range(len(codes)) if i != j]
        total += sum(similarity(codes[i], codes[j]) for i, j in pairs) / len(pairs)
    return total - 2 * sum(similarity(a, b) for a in one for b in other) / (len(one) * len(other))


def test_mmd_equals_a_double_loop_over_pairs() -> None:
    for one, other in ((draw(5, 3), 2 * draw(5, 3, seed=1)), (draw(7, 2), draw(4, 2, seed=1) + 1)):
        expected = [by_hand(one[:, j].tolist(), other[:, j].tolist()) for j in range(one.shape[1])]
        torch.testing.assert_close(latent_mmd(one, other), torch.tensor(expected, dtype=torch.float64))


def test_mmd_of_one_distribution_is_zero_on_average() -> None:
    found = latent_mmd(draw(20, 4000), draw(20, 4000, seed=1))
    assert (found < 0).any()
    assert abs(found.mean()) < 4 * found.std() / 4000**0.5


def test_latents_are_compared_separately() -> None:
    one, other = draw(200, 3), draw(200, 3, seed=1) + torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    found = latent_mmd(one, other)
    assert found[1] > 0.3
    assert found[[0, 2]].abs().max() < 0.1


def test_mmd_is_symmetric() -> None:
    one, other = draw(6, 2), draw(6, 2, seed=1)
    torch.testing.assert_close(latent_mmd(one, other), latent_mmd(other, one))


def test_the_gradient_equals_finite_differences() -> None:
    assert torch.autograd.gradcheck(latent_mmd, (draw(4, 2).requires_grad_(), draw(3, 2, seed=1).requires_grad_()))
