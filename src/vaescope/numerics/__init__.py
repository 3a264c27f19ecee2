"""Formulas as functions of tensors: no models, no files, no hidden randomness. Each formula is defined only here."""
