"""Find out which latents a VAE uses, what they encode, and how many it needs."""

import lazy_loader

__version__ = "0.2.0"

# Loaded when first used, so that `import vaescope` is quick.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
