"""Kernels of convolutions of stride 2: against the library, their adjoints, derivatives, and batched weights.

Without a GPU the kernels run in Triton's interpreter; see conftest.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, vmap

from vaescope.data import open_dataset
from vaescope.models import Architecture
from vaescope.nets import Conv, convolution, strided, strided_kernels
from vaescope.numerics.linalg import tf32_products
from vaescope.training import Member, Plan, Trainer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MEMBERS, BATCH = 2, 3
# The height and width of the small image, the channels of the large and of the small one, and the kernel. Channels
# that a step of the sum divides take another way than others, and so do few channels of the large image.
LAYERS = [(4, 4, 1, 5, 4), (3, 5, 3, 2, 2), (2, 3, 32, 16, 4), (2, 2, 16, 64, 2), (4, 2, 3, 7, 6), (3, 3, 9, 70, 4)]

Operation = Callable[[Tensor, Tensor], Tensor]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def layer(height: int, width: int, large: int, small: int, kernel: int) -> tuple[Tensor, Tensor, Tensor]:
    """A large image, a weight and a small image of each member, with channels first."""
    x = draw(MEMBERS, BATCH, large, 2 * height, 2 * width)
    return x, draw(MEMBERS, small, large, kernel, kernel, seed=1), draw(MEMBERS, BATCH, small, height, width, seed=2)


def library(kernel: int) -> tuple[Operation, Operation]:
    """The convolution and the transposed one of torch."""
    settings = {"stride": 2, "padding": kernel // 2 - 1}
    return (lambda x, weight: F.conv2d(x, weight, **settings)), (
        lambda y, weight: F.conv_transpose2d(y, weight, **settings)
    )


def close(found: Tensor, wanted: Tensor) -> bool:
    return float((found - wanted).norm() / wanted.norm()) <= 1e-5


@pytest.mark.parametrize("sizes", LAYERS)
def test_kernels_are_the_convolutions_of_the_library(sizes: tuple[int, ...]) -> None:
    x, weight, y = layer(*sizes)
    down, up = library(sizes[-1])
    for operation, wanted, image in ((strided.convolve_strided, down, x), (strided.deconvolve_strided, up, y)):
        found = vmap(operation)(image, weight)
        assert close(found, torch.stack([wanted(*one) for one in zip(image, weight, strict=True)]))


def test_images_of_any_size_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = strided_kernels.Sizes(1, 512, 128, 128, 64, 32, 4)
    assert sizes.wide
    assert not strided_kernels.Sizes(64, 64, 32, 32, 32, 32, 4).wide
    x, weight, y = layer(*LAYERS[2])
    x, y = (image.movedim(2, -1).contiguous() for image in (x, y))
    weight = weight.permute(0, 3, 4, 2, 1).contiguous()

    def results() -> tuple[Tensor, ...]:
        sums = strided_kernels.weight_sums(x, y, LAYERS[2][-1], 2, False)
        return strided_kernels.down(x, weight, False), strided_kernels.up(y, weight, False), sums

    narrow = results()
    monkeypatch.setattr(strided_kernels, "WIDE", 1)
    assert all(torch.equal(one, other) for one, other in zip(results(), narrow, strict=True))


@pytest.mark.parametrize("parts", [1, 3, 4])
@pytest.mark.parametrize("sizes", LAYERS[:3])
def test_the_three_parts_of_the_form_are_adjoint(sizes: tuple[int, ...], parts: int) -> None:
    x, weight, y = layer(*sizes)
    x, y = (image.movedim(2, -1).contiguous() for image in (x, y))
    weight = weight.permute(0, 3, 4, 2, 1).contiguous()
    form = (strided_kernels.down(x, weight, False) * y).sum()
    assert float((strided_kernels.up(y, weight, False) * x).sum()) == pytest.approx(float(form), rel=1e-4)
    sums = strided_kernels.weight_sums(x, y, sizes[-1], parts, False)
    assert sums.shape == (parts, *weight.shape)
    assert float((sums.sum(0) * weight).sum()) == pytest.approx(float(form), rel=1e-4)


@pytest.mark.parametrize("up", [False, True])
def test_first_and_second_derivatives_of_batched_weights_are_those_of_the_library(up: bool) -> None:
    x, weight, y = layer(*LAYERS[2])
    image = y if up else x
    operation, wanted = (strided.deconvolve_strided if up else strided.convolve_strided), library(4)[up]

    def cubes(operation: Operation, image: Tensor, weight: Tensor) -> Tensor:
        return operation(image, weight).pow(3).sum()

    def slopes(operation: Operation, image: Tensor, weight: Tensor) -> Tensor:
        return grad(partial(cubes, operation))(image, weight).pow(2).sum()

    for function in (cubes, slopes):
        found = vmap(grad(partial(function, operation), argnums=(0, 1)))(image, weight)
        for member in range(MEMBERS):
            alone = grad(partial(function, wanted), argnums=(0, 1))(image[member], weight[member])
            assert all(close(ours[member], theirs) for ours, theirs in zip(found, alone, strict=True))


def test_members_may_share_images() -> None:
    x, weight, _ = layer(*LAYERS[0])
    found = vmap(strided.convolve_strided, in_dims=(None, 0))(x[0], weight)
    assert close(found, vmap(strided.convolve_strided)(x[:1].expand_as(x), weight))


def test_no_gradient_is_computed_for_items(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, _ = layer(*LAYERS[0])
    parts: list[str] = []
    apply = strided._apply
    monkeypatch.setattr(strided, "_apply", lambda *given: (parts.append(given[0]), apply(*given))[1])
    grad(lambda weight: strided.convolve_strided(x[0], weight).sum())(weight[0])
    assert parts == ["down", "weight"]


def test_the_sum_over_positions_is_split_where_members_are_few() -> None:
    x, y = torch.empty(1, 64, 32, 32, 32), torch.empty(1, 64, 16, 16, 32)
    assert strided.parts_of_sum(x, y, 4) == strided.MAX_PARTS
    many = strided.parts_of_sum(x.expand(32, *x.shape[1:]), y.expand(32, *y.shape[1:]), 4)
    assert 1 <= many < strided.MAX_PARTS
    assert strided.parts_of_sum(x[:, :1, :4, :4], y[:, :1, :2, :2], 4) == 1


@pytest.mark.parametrize("tf32", [True, False])
def test_kernels_serve_coarse_numbers_on_a_gpu(tf32: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(1)
    assert not strided.has_kernels(x.bfloat16())
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    with tf32_products(tf32):
        assert strided.has_kernels(x.bfloat16())
        assert strided.has_kernels(x) == tf32
        assert not strided.has_kernels(x.double())
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
        assert not strided.has_kernels(x.bfloat16())


@pytest.mark.skipif(DEVICE == "cuda", reason="tests/gpu trains there")
def test_an_ensemble_trains_by_kernels_as_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    data, plan = open_dataset("digits").draw(20), Plan(2, 4, log_every=2, evaluate_every=2, monitor_every=0)
    members = [Member(3, learning_rate=1e-3, seed=0), Member(2, learning_rate=1e-3, seed=1)]
    states = []
    for by_kernels in (False, True):
        monkeypatch.setattr(convolution, "_by_products", lambda x, own=by_kernels: own)
        monkeypatch.setattr(convolution, "has_kernels", lambda x: True)
        trainer = Trainer(Architecture(net=Conv((4, 2), (4, 8), 8)), members, plan, data, None, "cpu")
        trainer.advance()
        states.append(trainer.state.parameters)
    assert close(states[1], states[0])
