"""Latent-variable models: nets, posterior, prior and likelihood put together."""

from vaescope.models.architecture import Architecture, check_latents
from vaescope.models.autoencoder import Autoencoder
from vaescope.models.conditional import Conditional
from vaescope.models.forward_pass import Pass
from vaescope.models.gradient_origin import VGON
from vaescope.models.identifiable import Identifiable
from vaescope.models.linear import Linear
from vaescope.models.registry import MODELS
from vaescope.models.vae import VAE

__all__ = [
    "MODELS",
    "VAE",
    "VGON",
    "Architecture",
    "Autoencoder",
    "Conditional",
    "Identifiable",
    "Linear",
    "Pass",
    "check_latents",
]
