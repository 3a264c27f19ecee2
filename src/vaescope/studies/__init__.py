"""Studies: every table and figure of the five documents by its name, from runs to a comparison with the published."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
