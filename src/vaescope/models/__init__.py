"""Latent-variable models: nets, posterior, prior and likelihood put together."""

from vaescope.models.architecture import Architecture, check_latents
from vaescope.models.autoencoder import Autoencoder
from vaescope.models.conditional import Conditional
from vaescope.models.forward_pass import ForwardPass
from vaescope.models.gradient_origin import VGON
from vaescope.models.identifiable import Identifiable
from vaescope.models.latent_model import LatentModel
from vaescope.models.linear import Linear
from vaescope.models.module import LatentModule, Parts
from vaescope.models.registry import MODELS
from vaescope.models.vae import VAE

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
