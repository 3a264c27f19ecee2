"""All parameters of a model as one vector: an optimiser step is then a handful of operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNMENT = 64  # numbers; keeps every parameter on a boundary that wide loads want


@dataclass(frozen=True)
class Layout:
    """Where each named parameter lies in the vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    spans: tuple[int, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a module's parameters."""
        parameters = dict(module.named_parameters())
        shapes = tuple(tuple(parameter.shape) for parameter in parameters.values())
        spans = tuple(-(-math.prod(shape) // ALIGNMENT) * ALIGNMENT for shape in shapes)
        return cls(tuple(parameters), shapes, spans)

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(self.spans)

    def unpack(self, vector: Float[Tensor, "size"]) -> dict[str, Tensor]:
        """The named parameters, as views of the vector."""
        parts = vector.split(self.spans)
        return {
            name: part[: math.prod(shape)].reshape(shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def pack(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, "size"]:
        """The vector that holds the named parameters, each placed at the start of its room.

        A parameter of a smaller model (fewer latents) fills the first rows and columns; the rest is zero.
        """
        vector = torch.zeros(self.size, dtype=next(iter(parameters.values())).dtype)
        for name, room in self.unpack(vector).items():
            value = parameters[name].detach()
            room[tuple(slice(size) for size in value.shape)] = value
        return vector

    def widen(self, vector: Float[Tensor, "smaller_size"], smaller: Layout) -> Float[Tensor, "size"]:
        """The vector of a smaller model placed into this one: what `crop` takes out again."""
        return self.pack(smaller.unpack(vector))

    def crop(self, vector: Float[Tensor, "size"], smaller: Layout) -> Float[Tensor, "smaller_size"]:
        """The vector of the smaller model that `pack` placed into this one."""
        rooms = self.unpack(vector)
        parts = {
            name: rooms[name][tuple(slice(size) for size in shape)]
            for name, shape in zip(smaller.names, smaller.shapes, strict=True)
        }
        return smaller.pack(parts)
