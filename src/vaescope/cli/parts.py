"""What several commands take as text: parts of a model with their options, lists of numbers, data with options."""

from __future__ import annotations

import json
from typing import Any

from vaescope.errors import ConfigurationError

PARTS = ("data", "model", "net", "posterior", "prior", "likelihood", "optimiser", "objective", "gap")

# What the help of a command says, without loading the packages that hold the tables; a contract test compares them.
MODELS = "vae, conditional (told the label), identifiable (iVAE, told the factors), vgon (gradient origin)"
NETS = "conv, mlp, fully_connected, affine; by the data when left out."
POSTERIORS = "diagonal, full (covariance)"
PRIORS = "standard, anisotropic, student_t, mixture, sparse, conditional; by the model when left out."
LIKELIHOODS = "bernoulli, gaussian, laplace; by the data when left out."
OBJECTIVES = "beta, annealed, beta_tc, factor, dip_i, dip_ii, decomposition, maximum_entropy."
OPTIMISERS = "adam, amsgrad, adagrad."
PRECISIONS = "float32, float64, tf32, bfloat16."
INITIALISATIONS = "glorot (as in Keras; the default), torch (the default of vgon)."
WARM_UP = "Steps over which all but the reconstruction is brought in."
FREE_BITS = "Nats of each latent's rate that cost nothing."


def opened(data: str, options: dict[str, Any]) -> Any:
    """The data set with options that came as text, and so may be of any type."""
    from vaescope.data import open_dataset

    try:
        return open_dataset(data, **options)
    except TypeError as error:
        given = " ".join(f"--set data.{name}={value}" for name, value in options.items())
        raise ConfigurationError(f"{data} must be given options of the right type, got {given} ({error}).") from error


def numbers(option: str, values: str, kind: type[int] | type[float]) -> list[Any]:
    """The numbers of a comma-separated list."""
    try:
        return [kind(value) for value in values.split(",")]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ConfigurationError(f"--{option} must be {wanted} separated by commas, got {values!r}.") from None


def parse_settings(settings: list[str]) -> dict[str, dict[str, Any]]:
    """PART.OPTION=VALUE into a table of options for each part; values are JSON, or else text."""
    options: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for setting in settings:
        path, equals, value = setting.partition("=")
        part, dot, option = path.partition(".")
        if not (equals and dot and option and part in PARTS):
            raise ConfigurationError(
                f"--set must be PART.OPTION=VALUE with PART one of {', '.join(PARTS)}, got {setting!r}."
            )
        try:
            options[part][option] = json.loads(value)
        except ValueError:
            options[part][option] = value
    return options


def part(name: str, chosen: str | None, options: dict[str, dict[str, Any]]) -> Any:
    if not options[name]:
        return chosen
    if chosen is None:
        raise ConfigurationError(
            f"--set {name}.{next(iter(options[name]))} needs --{name} to say which {name} it is for."
        )
    return table(chosen, options[name])


def table(name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, **options}


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
