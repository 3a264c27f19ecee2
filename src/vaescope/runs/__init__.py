"""Runs: configuration, folder on disk, fit and resume, and questions over many of them."""

import lazy_loader

# Loaded when first used, so that listing thousands of runs does not load torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
