"""Convolutions of stride 2: the library's call, the product of patches, gradients, and batched weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap

from vaescope.nets.convolution import (
    Convolution,
    Deconvolution,
    _fused_sum,
    _stepwise_sum,
    convolve,
    convolve_patches,
    deconvolve,
    deconvolve_patches,
    library_convolutions,
    overlap_add,
    patches,
)

Operation = Callable[[Tensor, Tensor, Tensor], Tensor]
DOWN, UP = [convolve, convolve_patches], [deconvolve, deconvolve_patches]
KERNELS = [2, 4, 6]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(8, 8), (6, 10)])
@pytest.mark.parametrize("operation", DOWN)
def test_convolving_is_the_strided_convolution(operation: Operation, size: tuple[int, int], kernel: int) -> None:
    x, weight, bias = draw(2, 3, *size), draw(5, 3, kernel, kernel, seed=1), draw(5, seed=2)
    expected = F.conv2d(x, weight, bias, stride=2, padding=kernel // 2 - 1)
    assert expected.shape == (2, 5, size[0] // 2, size[1] // 2)
    torch.testing.assert_close(operation(x, weight, bias), expected)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(4, 4), (3, 5)])
@pytest.mark.parametrize("operation", UP)
def test_deconvolving_is_the_transposed_convolution(operation: Operation, size: tuple[int, int], kernel: int) -> None:
    x, weight, bias = draw(2, 3, *size), draw(3, 5, kernel, kernel, seed=1), draw(5, seed=2)
    expected = F.conv_transpose2d(x, weight, bias, stride=2, padding=kernel // 2 - 1)
    assert expected.shape == (2, 5, 2 * size[0], 2 * size[1])
    torch.testing.assert_close(operation(x, weight, bias), expected)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(7, 8), (8, 7), (7, 5)])
def test_odd_sizes_are_padded_with_zeros_below_and_on_the_right(size: tuple[int, int], kernel: int) -> None:
    x, weight, bias = draw(2, 3, *size), draw(4, 3, kernel, kernel, seed=1), draw(4, seed=2)
    even = torch.zeros(2, 3, size[0] + size[0] % 2, size[1] + size[1] % 2, dtype=torch.float64)
    even[:, :, : size[0], : size[1]] = x
    assert torch.equal(convolve(x, weight, bias), convolve(even, weight, bias))


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("operation", [*DOWN, *UP])
def test_first_and_second_derivatives_are_right(operation: Operation, kernel: int) -> None:
    inputs = draw(1, 2, 4, 2), draw(2, 2, kernel, kernel, seed=1), draw(2, seed=2)
    inputs = tuple(value.requires_grad_() for value in inputs)
    assert gradcheck(operation, inputs)
    assert gradgradcheck(operation, inputs)


@settings(max_examples=50, deadline=None)
@given(
    batch=st.integers(1, 2),
    half=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    channels=st.integers(1, 3),
    blocks=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_gathering_patches_and_adding_overlaps_are_adjoint(
    batch: int, half: tuple[int, int], channels: int, blocks: int, seed: int
) -> None:
    kernel = 2 * blocks
    x = draw(batch, 2 * half[0], 2 * half[1], channels, seed=seed)
    y = draw(batch, *half, kernel * kernel * channels, seed=seed + 1)
    gathered, added = patches(x, kernel), overlap_add(y, kernel)
    assert gathered.shape == y.shape
    assert added.shape == x.shape
    torch.testing.assert_close((gathered * y).sum(), (x * added).sum())


def test_a_patch_is_its_window_row_by_row_with_channels_last() -> None:
    x = draw(1, 6, 6, 2)
    assert torch.equal(patches(x, 4)[0, 1, 1], x[0, 1:5, 1:5].flatten())


MEMBERS = 3


def members(up: bool) -> tuple[Tensor, Tensor, Tensor]:
    weight = draw(MEMBERS, 2, 4, 4, 4, seed=1) if up else draw(MEMBERS, 4, 2, 4, 4, seed=1)
    return draw(MEMBERS, 2, 2, 6, 4), weight, draw(MEMBERS, 4, seed=2)


def each(operation: Operation, x: list[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    return torch.stack([operation(*one) for one in zip(x, weight, bias, strict=True)])


@pytest.mark.parametrize("operation", [*DOWN, *UP])
def test_batched_weights_equal_a_loop_over_weights(operation: Operation) -> None:
    x, weight, bias = members(operation in UP)
    shared = vmap(operation, in_dims=(None, 0, 0))(x[0], weight, bias)
    torch.testing.assert_close(shared, each(operation, [x[0]] * MEMBERS, weight, bias))
    own = vmap(operation)(x, weight, bias)
    torch.testing.assert_close(own, each(operation, list(x), weight, bias))


@pytest.mark.parametrize("axis", range(5))
@pytest.mark.parametrize(("function", "channels"), [(patches, 2), (overlap_add, 32)])
def test_members_may_lie_along_any_axis(function: Callable[[Tensor, int], Tensor], channels: int, axis: int) -> None:
    values = draw(MEMBERS, 2, 6, 4, channels)
    result = vmap(function, in_dims=(axis, None))(values.movedim(0, axis), 4)
    torch.testing.assert_close(result, torch.stack([function(one, 4) for one in values]))


@pytest.mark.parametrize("operation", [*DOWN, *UP])
def test_gradients_of_batched_weights_equal_autograd(operation: Operation) -> None:
    x, weight, bias = members(operation in UP)

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return operation(x, weight, bias).pow(3).sum()

    together = vmap(grad(loss, argnums=(0, 1, 2)))(x, weight, bias)
    for member in range(MEMBERS):
        own = [value[member].clone().requires_grad_() for value in (x, weight, bias)]
        expected = torch.autograd.grad(loss(*own), own)
        for actual, wanted in zip(together, expected, strict=True):
            torch.testing.assert_close(actual[member], wanted)


def test_the_layers_apply_their_own_weights_and_crop_to_their_size() -> None:
    down, up = Convolution(2, 3, 4).double(), Deconvolution(3, 2, 4, (7, 5)).double()
    for layer, seed in ((down, 1), (up, 2)):
        layer.weight.data, layer.bias.data = draw(*layer.weight.shape, seed=seed), draw(*layer.bias.shape, seed=seed)
    x = draw(2, 2, 7, 5)
    middle = down(x)
    assert middle.shape == (2, 3, 4, 3)
    torch.testing.assert_close(middle, convolve(x, down.weight, down.bias))
    torch.testing.assert_close(up(middle), deconvolve(middle, up.weight, up.bias)[..., :7, :5])


@pytest.mark.parametrize("kernel", [2, 4, 6])
def test_the_compiled_and_the_stepwise_sum_of_windows_agree(kernel: int) -> None:
    taps = torch.randn(2, 3, 5, kernel, kernel, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_fused_sum(taps), _stepwise_sum(taps))


def test_a_gpu_uses_patches_but_in_a_block_of_library_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("conv2d", "conv_transpose2d"):
        function = getattr(F, name)
        monkeypatch.setattr(
            F, name, lambda *given, own=name, call=function, **named: (calls.append(own), call(*given, **named))[1]
        )
    x, down, up = draw(2, 3, 8, 8), draw(5, 3, 4, 4, seed=1), draw(3, 1, 4, 4, seed=2)
    expected = convolve(x, down, None), deconvolve(x, up, None)
    assert calls == ["conv2d"]  # a deconvolution to one channel is a product on a CPU
    calls.clear()
    # Tensors that say they are on a GPU.
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)
    torch.testing.assert_close((convolve(x, down, None), deconvolve(x, up, None)), expected)
    assert calls == []
    with library_convolutions():
        torch.testing.assert_close((convolve(x, down, None), deconvolve(x, up, None)), expected)
    assert calls == ["conv2d", "conv_transpose2d"]
    convolve(x, down, None)
    assert len(calls) == 2
