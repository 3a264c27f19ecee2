"""Shapes and types of the packages that only compute are checked while tests run.

The others take input from people, and their own sentences about wrong types are what is tested there.
"""

from jaxtyping import install_import_hook

COMPUTING = ("numerics", "nets", "posteriors", "priors", "likelihoods")

install_import_hook([f"vaescope.{package}" for package in COMPUTING], "beartype.beartype")
