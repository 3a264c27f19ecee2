"""Where spatial codes carry information: the rate of each channel at each position."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from vaescope.codes import Representation
from vaescope.errors import DataError
from vaescope.numerics import gaussian


def rate_by_position(codes: Representation) -> Float[Tensor, "channels *positions"]:
    """The KL divergence from the prior of each channel at each position, in nats, averaged over the items."""
    if codes.positions is None:
        raise DataError("The rate by position needs spatial codes whose latents are channels, got one row per item.")
    units = codes.in_units_of_prior()
    rates = gaussian.kl_to_standard(units.mean.double(), units.variance.double().log())
    return rates.reshape(codes.item_count, -1, codes.latents).mean(0).T.reshape(codes.latents, *codes.positions)
