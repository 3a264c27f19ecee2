"""The contract of a net: a description that builds an encoder and a decoder for items of any shape."""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vaescope.checks import LARGEST_NUMBER, is_whole
from vaescope.errors import ConfigurationError, quoted
from vaescope.registry import Part, PartRegistry

Shape: TypeAlias = tuple[int, ...]

MAX_LAYERS = 1000


@runtime_checkable
class Encoder(Protocol):
    """A module from items to features.

    Attributes:
        features: The number of features of an item.
    """

    features: int

    def __call__(self, x: Float[Tensor, "batch ..."], /) -> Float[Tensor, "batch features"]:
        """The features of each item."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """A module from codes to the numbers that the likelihood takes, in the shape of an item."""

    def __call__(self, z: Float[Tensor, "batch inputs"], /) -> Float[Tensor, "batch ..."]:
        """One output for each code."""
        ...


@runtime_checkable
class Net(Part, Protocol):
    """Builds the encoder and the decoder of a model.

    Both are `nn.Module`s. They may hold persistent buffers and may differ between training and evaluation mode.

    Attributes:
        takes_vectors: Whether the encoder flattens an item, whatever its shape. A conditional model then appends the
            condition to the item; otherwise it appends the condition to the features.
        convolutional: Whether the layers are convolutions, which need more steps until their codes are stable.
    """

    takes_vectors: ClassVar[bool] = False
    convolutional: ClassVar[bool] = False

    def encoder(self, shape: Shape) -> Encoder:
        """The encoder of items with this shape."""
        ...

    def decoder(self, inputs: int, shape: Shape) -> Decoder:
        """The decoder from `inputs` numbers (the code, after any condition) to items with this shape."""
        ...


NETS: PartRegistry[Net] = PartRegistry("net", "vaescope.nets", Net)


def check_sizes(name: str, sizes: object) -> None:
    """Raise an error that names the option unless all sizes are whole numbers of at least 1."""
    if not isinstance(sizes, tuple) or not all(is_whole(size, 1, LARGEST_NUMBER) for size in sizes):
        raise ConfigurationError(f"{name} must be whole numbers of at least 1, got {quoted(sizes)}.")
    if len(sizes) > MAX_LAYERS:
        raise ConfigurationError(f"{name} must have at most {MAX_LAYERS} layers, got {len(sizes)}.")
