"""The contract of a latent-variable model: what training, encoding and diagnosis may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vaescope.data.conditions import ConditionKind
from vaescope.numerics.distributions import Distribution
from vaescope.priors.prior import PriorModule

Items: TypeAlias = Float[Tensor, "batch ..."]
Noise: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True)
class ForwardPass:
    """x -> posterior -> z -> likelihood, and the prior (None for a deterministic code)."""

    posterior: Distribution
    z: Float[Tensor, "batch latents"]
    likelihood: Distribution
    prior: Distribution | None


@runtime_checkable
class EncodesWithNoise(Protocol):
    """A model that draws noise to find the posterior, in training at least; `encode` leaves this noise out."""

    def encode_with_noise(self, x: Items, noise: Noise, condition: Tensor | None = None) -> Distribution:
        """q(z|x) with the given noise, which has the streams of a forward pass."""
        ...


@runtime_checkable
class LatentModel(Protocol):
    """x -> q(z|x) -> z -> p(x|z), with a prior over z.

    **Condition.** A conditional model declares in `condition` what it is given about an item: its 'label' as a one-hot
    vector, or its varying 'factors' scaled to [0, 1]. The tensors have `condition_width` columns. `condition` is None,
    and `condition_width` 0, for all other models, which ignore the argument.

    **Noise.** `noise` names the streams of standard normal numbers that a forward pass takes, and the columns of each:
    a model draws nothing itself. The names are part of the seed, so a renamed stream draws other numbers.

    **State.** What training changes is the parameters and the persistent buffers (those in `state_dict`), such as the
    running statistics of a normalisation layer; both are checkpointed, copied and restored together. Other buffers are
    constants that the constructor computes again. A model trains in training mode; held-out items, the monitor and
    everything after training use evaluation mode.

    **Latent mask.** A non-persistent buffer of ones and zeros. A latent whose mask is 0 has the posterior N(0, 1) and
    reaches the decoder as 0, so a model with n latents runs exactly inside a wider one.

    Attributes:
        condition: The kind of condition; default: None.
        default_posterior: Name of the posterior if none is given.
        default_prior: Name of the prior if none is given. A model whose default prior is conditional requires one.
        default_initialisation: Name of the initialisation if none is given.
        options: Names of the keyword arguments that the constructor takes in addition to the parts.
        condition_width: Number of columns of a condition.
        noise: Columns of each noise stream.
        latent_mask: 1 for each latent in use.
        prior: The module for p(z); None for a deterministic code, which has no prior.
    """

    condition: ClassVar[ConditionKind | None] = None
    default_posterior: ClassVar[str] = "diagonal"
    default_prior: ClassVar[str] = "standard"
    default_initialisation: ClassVar[str] = "glorot"
    options: ClassVar[tuple[str, ...]] = ()

    condition_width: int
    noise: dict[str, int]
    latent_mask: Tensor
    prior: PriorModule | None

    def encode(self, x: Items, condition: Tensor | None = None) -> Distribution:
        """q(z|x), or q(z|x, condition)."""
        ...

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Distribution:
        """p(x|z), or p(x|z, condition)."""
        ...

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        """One pass from items to codes and back, with the given noise."""
        ...
