"""All parameters of a model, and of its critic, as one vector: an optimiser step then needs only a few operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNMENT = 64  # numbers; wide loads need every parameter on such a boundary


class Weights(NamedTuple):
    """The named parameters of a model, and of its critic if the objective has one."""

    model: Mapping[str, Tensor]
    critic: Mapping[str, Tensor] = {}


@dataclass(frozen=True)
class Layout:
    """Where each parameter lies in the vector: those of the model first, then those of the critic.

    Attributes:
        names: The parameters of the model.
        critic_names: The parameters of the critic.
        shapes: The shape of each parameter.
        spans: The length of the vector's part for each parameter, which is padded to `ALIGNMENT`.
        buffers: The shape of each persistent buffer of the model. Buffers are no part of the vector.
    """

    names: tuple[str, ...]
    critic_names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    spans: tuple[int, ...]
    buffers: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, model: nn.Module, critic: nn.Module | None = None) -> Layout:
        """The layout of a model and its critic."""
        parameters = dict(model.named_parameters())
        critics = {} if critic is None else dict(critic.named_parameters())
        shapes = tuple(tuple(parameter.shape) for parameter in (*parameters.values(), *critics.values()))
        spans = tuple(-(-math.prod(shape) // ALIGNMENT) * ALIGNMENT for shape in shapes)
        buffers = {name: tuple(buffer.shape) for name, buffer in persistent_buffers(model).items()}
        return cls(tuple(parameters), tuple(critics), shapes, spans, buffers)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(self.spans)

    @property
    def model_size(self) -> int:
        """The length of the model's part of the vector, which comes first."""
        return sum(self.spans[: len(self.names)])

    def unpack(self, vector: Float[Tensor, "size"]) -> Weights:
        """The named parameters, as views of the vector."""
        views = [
            part[: math.prod(shape)].reshape(shape)
            for shape, part in zip(self.shapes, vector.split(self.spans), strict=True)
        ]
        own = len(self.names)
        return Weights(
            dict(zip(self.names, views[:own], strict=True)), dict(zip(self.critic_names, views[own:], strict=True))
        )

    def pack(self, weights: Weights) -> Float[Tensor, "size"]:
        """The vector that holds the named parameters.

        A parameter of a smaller model (fewer latents) fills the first rows and columns of its part; the rest is zero.
        """
        vector = torch.zeros(self.size, dtype=next(iter(weights.model.values())).dtype)
        for views, values in zip(self.unpack(vector), weights, strict=True):
            for name, view in views.items():
                place(values[name].detach(), view)
        return vector

    def widen(self, vector: Float[Tensor, "smaller_size"], smaller: Layout) -> Float[Tensor, "size"]:
        """The vector of a smaller model placed into this layout; `crop` is the inverse."""
        return self.pack(smaller.unpack(vector))

    def crop(self, vector: Float[Tensor, "size"], smaller: Layout) -> Float[Tensor, "smaller_size"]:
        """The vector of the smaller model that `widen` placed into this layout."""
        whole = self.unpack(vector)
        shapes = iter(smaller.shapes)
        model = {name: whole.model[name][corner(next(shapes))] for name in smaller.names}
        critic = {name: whole.critic[name][corner(next(shapes))] for name in smaller.critic_names}
        return smaller.pack(Weights(model, critic))


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that are part of the state of a model: those in its `state_dict`."""
    # A tensor that two modules share has two names there, of which this is the first.
    kept = model.state_dict().keys()
    return {name: value for name, value in model.named_buffers() if name in kept}


def corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The index of the first entries along every axis, as many as `shape` has."""
    return tuple(slice(size) for size in shape)


def place(value: Tensor, room: Tensor) -> None:
    """Copy a tensor into the first rows and columns of one that is as large or larger."""
    room[corner(value.shape)] = value
