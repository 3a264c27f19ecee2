"""Sweeps: a grid of runs, from a file to a table of results, on this machine or a cluster."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
