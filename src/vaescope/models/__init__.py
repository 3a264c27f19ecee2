"""Latent-variable models: nets, posterior, prior and likelihood put together."""

from vaescope.models.architecture import Architecture, check_latents
from vaescope.models.gradient_origin import VGON
from vaescope.models.latent_model import ForwardPass, LatentModel
from vaescope.models.linear import Linear
from vaescope.models.module import MODELS, LatentModule, Parts
from vaescope.models.vae import VAE, Autoencoder, Conditional, Identifiable

__all__ = [
    "MODELS",
    "VAE",
    "VGON",
    "Architecture",
    "Autoencoder",
    "Conditional",
    "ForwardPass",
    "Identifiable",
    "LatentModel",
    "LatentModule",
    "Linear",
    "Parts",
    "check_latents",
]
