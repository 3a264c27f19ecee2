"""Latent-variable models: nets, posterior, prior and likelihood put together."""

from vaescope.models.architecture import Architecture, check_latents
from vaescope.models.factory_architecture import AnyArchitecture, FactoryArchitecture, likelihood_of
from vaescope.models.factory_model import FactoryModel
from vaescope.models.factory_source import FactoryFunction
from vaescope.models.gradient_origin import VGON
from vaescope.models.latent_model import ForwardPass, LatentModel
from vaescope.models.linear import Linear
from vaescope.models.module import MODELS, LatentModule, Parts, TrainableModel
from vaescope.models.vae import VAE, Autoencoder, Conditional, Identifiable

__all__ = [
    "MODELS",
    "VAE",
    "VGON",
    "AnyArchitecture",
    "Architecture",
    "Autoencoder",
    "Conditional",
    "FactoryArchitecture",
    "FactoryFunction",
    "FactoryModel",
    "ForwardPass",
    "Identifiable",
    "LatentModel",
    "LatentModule",
    "Linear",
    "Parts",
    "TrainableModel",
    "check_latents",
    "likelihood_of",
]
