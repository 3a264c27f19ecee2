"""The scale of pixels: which numbers are black and white in the data, where a model sees 0 and 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import Distribution

WHITE_8_BITS = 255


@dataclass(frozen=True)
class PixelScale:
    """The numbers that are black and white in the images of a data set.

    Attributes:
        black, white: Of floats; if they are not 0 and 1, also of integers.
        integer_white: The integer that is white if `black` and `white` are 0 and 1; 1 if integers are 0 and 1, too.
    """

    black: float = 0.0
    white: float = 1.0
    integer_white: int = WHITE_8_BITS

    @property
    def is_unit(self) -> bool:
        """Whether a model sees float pixels as they are."""
        return (self.black, self.white) == (0, 1)

    def white_of(self, bytes_: bool) -> int:
        """The integer that is white; bytes have no brighter white than 255."""
        return min(self.integer_white, WHITE_8_BITS) if bytes_ else self.integer_white

    @property
    def width(self) -> float:
        """The distance from black to white."""
        return self.white - self.black

    def to_model(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Float pixels of the data as a model sees them."""
        return x if self.is_unit else (x - self.black) / self.width

    def to_data(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Pixels that a model decodes as those of the data."""
        return x if self.is_unit else x * self.width + self.black

    def of(self, distribution: Distribution) -> Distribution:
        """A distribution of what a model sees as one of the data."""
        return distribution if self.is_unit else Rescaled(distribution, self)


UNIT_SCALE = PixelScale()


@dataclass(frozen=True)
class Rescaled:
    """A distribution of images in the scale of the data."""

    base: Distribution
    scale: PixelScale

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The mean of each pixel."""
        return self.scale.to_data(self.base.mean)

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """The variance of each pixel."""
        return self.base.variance * self.scale.width**2

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """The draw of the model, in the scale of the data."""
        return self.scale.to_data(self.base.sample(noise))

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """The log-density of each image, by the change of variables."""
        return self.base.log_prob(self.scale.to_model(x)) - math.log(self.scale.width) * x[0].numel()
