"""Models as users write them outside vaescope: common ways in which a VAE returns its posterior."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

LATENTS, SHAPE, NUMBERS = 4, (1, 8, 8), 64

Posterior = namedtuple("Posterior", ["mu", "logvar"])


@dataclass
class Output:
    reconstruction: Tensor
    z_mean: Tensor
    z_log_var: Tensor


class Holder:
    """An object with attributes, as libraries return them."""

    def __init__(self, **parts: object) -> None:
        vars(self).update(parts)


class Base(nn.Module):
    """Linear maps; `moments` has the mean and log-variance that each model below returns in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.back = nn.Linear(NUMBERS, 2 * LATENTS), nn.Linear(LATENTS, NUMBERS)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.layer(x.flatten(1)).chunk(2, 1)
        return mean, log_variance

    def items(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.back(z)).reshape(-1, *SHAPE)

    def drawn(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        return mean + torch.randn_like(mean) * (log_variance / 2).exp()


def encoding(name: str, returned: Callable[[Tensor, Tensor], Any]) -> type[Base]:
    """A model whose `encode` returns the moments in some form."""

    def encode(self: Base, x: Tensor) -> Any:
        return returned(*self.moments(x))

    return type(name, (Base,), {"encode": encode, "decode": Base.items})


def forwarding(name: str, returned: Callable[[Tensor, Tensor, Tensor, Tensor], Any]) -> type[Base]:
    """A model whose forward pass returns (reconstruction, mean, log-variance, z) in some form."""

    def forward(self: Base, x: Tensor) -> Any:
        mean, log_variance = self.moments(x)
        z = self.drawn(mean, log_variance)
        return returned(self.items(z), mean, log_variance, z)

    return type(name, (Base,), {"forward": forward})


def normal(mean: Tensor, log_variance: Tensor) -> torch.distributions.Distribution:
    return torch.distributions.Normal(mean, (log_variance / 2).exp())


ENCODE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "pair": lambda m, v: (m, v),
    "list": lambda m, v: [m, v],
    "named tuple": Posterior,
    "mu and logvar": lambda m, v: {"mu": m, "logvar": v},
    "loc and scale": lambda m, v: {"loc": m, "scale": (v / 2).exp()},
    "mean and var": lambda m, v: {"mean": m, "var": v.exp()},
    "prefixed names": lambda m, v: {"z_mean": m, "z_log_var": v, "features": m},
    "attributes": lambda m, v: Holder(mean=m, log_variance=v),
    "Normal": normal,
    "Independent": lambda m, v: torch.distributions.Independent(normal(m, v), 1),
    "MultivariateNormal": lambda m, v: torch.distributions.MultivariateNormal(m, torch.diag_embed(v.exp())),
    "latent_dist": lambda m, v: Holder(latent_dist=Holder(mean=m, std=(v / 2).exp(), var=v.exp(), logvar=v)),
    "qz in a dict": lambda m, v: {"qz": normal(m, v), "z": m},
    "embedding and log_covariance": lambda m, v: {"embedding": m, "log_covariance": v},
    "distribution in a tuple": lambda m, v: (m, normal(m, v)),
}
FORWARD: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Any]] = {
    "reconstruction, mean, log-variance": lambda x, m, v, z: (x, m, v),
    "flat reconstruction": lambda x, m, v, z: (x.flatten(1), m, v),
    "mean, log-variance, reconstruction": lambda x, m, v, z: (m, v, x),
    "with the sample": lambda x, m, v, z: (x, z, m, v),
    "sample last": lambda x, m, v, z: (x, m, v, z),
    "with the items": lambda x, m, v, z: [x, x, m, v],
    "with a loss": lambda x, m, v, z: (x, m, v, x.mean()),
    "nested": lambda x, m, v, z: (x, {"mu": m, "logvar": v}),
    "data class": lambda x, m, v, z: Output(x, m, v),
}
MODELS: dict[str, type[Base]] = {
    **{name: encoding("Encoding", returned) for name, returned in ENCODE.items()},
    **{name: forwarding("Forwarding", returned) for name, returned in FORWARD.items()},
}


class WithBatchNorm(nn.Module):
    """A convolutional VAE with batch normalisation and dropout, whose posterior is spatial unless `flat`."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2))
        self.heads, self.decoder = nn.Conv2d(8, 2 * channels, 1), nn.ConvTranspose2d(channels, 1, 4, 2, 1)

    def encode(self, x: Tensor) -> torch.distributions.Distribution:
        return normal(*self.heads(self.encoder(x)).chunk(2, 1))

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.decoder(z))


class Hierarchical(Base):
    """Two levels of latents, the lower with a prior that depends on the upper."""

    def encode(self, x: Tensor) -> dict[str, Any]:
        mean, log_variance = self.moments(x)
        upper = {"mean": mean, "log_variance": log_variance}
        q, p = normal(mean[:, :2], log_variance[:, :2]), normal(mean[:, :2] / 2, log_variance[:, :2] * 0)
        return {"upper": upper, "lower": {"posterior": q, "prior": p}}


class VectorQuantizer(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z.round()


class Quantised(Base):
    def __init__(self) -> None:
        super().__init__()
        self.quantize = VectorQuantizer()

    def encode(self, x: Tensor) -> Tensor:
        codes: Tensor = self.quantize(self.moments(x)[0])
        return codes
