"""Parameters as one vector: packing and placing are invertible, padding stays zero."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from vaescope.training.layout import ALIGNMENT, Layout, Weights

Shape = tuple[int, ...]


class Parameters(nn.Module):
    def __init__(self, shapes: list[Shape]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for position, shape in enumerate(shapes):
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            self.register_parameter(f"p{position}", nn.Parameter(values))


def named(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


a_shape = st.lists(st.integers(1, 9), max_size=4).map(tuple)


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[Shape], list[Shape]]:
    """Shapes, and shapes that fit inside them."""
    shapes = draw(st.lists(a_shape, min_size=1, max_size=4))
    return shapes, [tuple(draw(st.integers(1, size)) for size in shape) for shape in shapes]


@settings(max_examples=60, deadline=None)
@given(st.lists(a_shape, min_size=1, max_size=4))
def test_unpacking_inverts_packing_and_padding_is_zero(shapes: list[Shape]) -> None:
    module = Parameters(shapes)
    layout = Layout.of(module)
    vector = layout.pack(Weights(named(module)))
    assert vector.shape == (layout.size,)
    assert vector.dtype == torch.float64
    assert equal(layout.unpack(vector).model, named(module))
    for shape, room in zip(shapes, vector.split(layout.spans), strict=True):
        assert not room[math.prod(shape) :].any()


@settings(max_examples=60, deadline=None)
@given(nested())
def test_a_smaller_model_placed_inside_a_larger_one_comes_back(pair: tuple[list[Shape], list[Shape]]) -> None:
    larger, smaller = Layout.of(Parameters(pair[0])), Parameters(pair[1])
    inner = Layout.of(smaller)
    placed = larger.pack(Weights(named(smaller)))
    assert torch.equal(larger.crop(placed, inner), inner.pack(Weights(named(smaller))))
    assert placed.count_nonzero() == inner.pack(Weights(named(smaller))).count_nonzero()
    for name, room in larger.unpack(placed).model.items():
        value = named(smaller)[name]
        assert torch.equal(room[tuple(slice(size) for size in value.shape)], value)


@settings(max_examples=30, deadline=None)
@given(nested())
def test_placing_a_crop_keeps_the_crop_and_clears_the_rest(pair: tuple[list[Shape], list[Shape]]) -> None:
    module = Parameters(pair[0])
    larger, inner = Layout.of(module), Layout.of(Parameters(pair[1]))
    cropped = larger.crop(larger.pack(Weights(named(module))), inner)
    again = larger.pack(inner.unpack(cropped))
    assert torch.equal(larger.crop(again, inner), cropped)
    assert again.count_nonzero() == sum(math.prod(shape) for shape in pair[1])


def test_every_parameter_starts_on_the_alignment() -> None:
    layout = Layout.of(Parameters([(3,), (64,), (65,), (), (128,)]))
    assert layout.spans == (64, 64, 128, 64, 128)
    assert all(span % ALIGNMENT == 0 for span in layout.spans)
    assert layout.size == 448


def test_the_unpacked_parameters_are_views_that_write_through() -> None:
    module = Parameters([(2, 3), (5,)])
    layout = Layout.of(module)
    vector = layout.pack(Weights(named(module)))
    layout.unpack(vector).model["p1"].fill_(7)
    assert vector[ALIGNMENT : ALIGNMENT + 5].eq(7).all()
    assert torch.equal(layout.unpack(vector).model["p0"], named(module)["p0"])


def test_the_gradient_of_padding_is_zero() -> None:
    module = Parameters([(2, 3), (5,)])
    layout = Layout.of(module)
    vector = layout.pack(Weights(named(module))).requires_grad_()
    sum(part.exp().sum() for part in layout.unpack(vector).model.values()).backward()
    assert vector.grad.count_nonzero() == 11
    assert equal(layout.unpack(vector.grad).model, {name: value.exp() for name, value in named(module).items()})


def test_the_critic_comes_after_the_model() -> None:
    model, critic = Parameters([(2, 3), (5,)]), Parameters([(4,)])
    layout = Layout.of(model, critic)
    vector = layout.pack(Weights(named(model), named(critic)))
    assert layout.model_size == Layout.of(model).size
    assert torch.equal(vector[: layout.model_size], Layout.of(model).pack(Weights(named(model))))
    assert equal(layout.unpack(vector).critic, named(critic))


def test_persistent_buffers_are_declared_and_no_part_of_the_vector() -> None:
    norm = nn.BatchNorm1d(3)
    norm.register_buffer("constant", torch.ones(2), persistent=False)
    layout = Layout.of(norm)
    assert layout.names == ("weight", "bias")
    assert layout.buffers == {"running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()}


def test_packing_does_not_keep_the_parameters_in_memory() -> None:
    module = Parameters([(2, 3)])
    vector = Layout.of(module).pack(Weights(dict(module.named_parameters())))
    assert not vector.requires_grad
    vector.zero_()
    assert module.p0.detach().count_nonzero() == 6
