"""What a model of another library returns, read as posteriors: distributions, named arrays, tuples of tensors.

A `Reader` is found once, for the first batch, and reads every batch after it in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from torch import Tensor
from torch.distributions import Distribution as TorchDistribution
from torch.distributions import MixtureSameFamily, constraints

from vaescope.errors import ConfigurationError, DataError
from vaescope.models.moments import SPREADS, Parameters, Spread
from vaescope.models.readers import Call, NotRecognised, Reader
from vaescope.models.tuple_outputs import element_at, tuple_reader

MEAN_NAMES: Final = ("mean", "mu", "loc", "embedding", "means")
SPREAD_NAMES: dict[str, Spread] = {
    **dict.fromkeys(("variance", "var", "v"), "variance"),
    **dict.fromkeys(("std", "scale", "stddev", "sigma"), "std"),
    **dict.fromkeys(
        ("log_variance", "logvar", "log_var", "logvariance", "log_covariance", "log_sigma2"), "log_variance"
    ),
    **dict.fromkeys(("log_std", "logstd", "log_scale", "log_sigma", "logsigma"), "log_std"),
}
# Parts that hold the posterior, and those that hold its prior.
POSTERIOR_NAMES: Final = ("latent_dist", "posterior", "qz", "q_z", "q")
PRIOR_NAMES: Final = ("prior", "pz", "p_z", "p")
AFFIXES = re.compile(r"^(?:posterior|latent|enc|qz|q|z)_|_(?:posterior|latent|enc|qz|q|z)$")
PRIOR_PREFIX = re.compile(r"^(?:prior|pz|p)_")


def reader_of(output: object, call: Call) -> Reader | dict[str, Reader]:
    """Find out how to read an output; a dictionary of readers for a hierarchy of groups.

    Raises:
        NotRecognised: The output is no posterior, or it could be read in several ways.
    """
    if isinstance(output, Tensor | np.ndarray):
        raise NotRecognised(f"one tensor of shape {tuple(output.shape)}")
    if isinstance(output, TorchDistribution):
        return _distribution_reader(output)
    if isinstance(output, Mapping) or not isinstance(output, tuple | list) or hasattr(output, "_fields"):
        return _named_reader(output, call)
    readers, questions = _readers_of_parts(output, call)
    if isinstance(output, list) and len(readers) == len(output) > 1:
        return {
            f"group {place + 1}": reader.inside(element_at(place), f"element {place + 1}")
            for place, reader in readers.items()
        }
    if len(readers) > 1:
        raise NotRecognised(
            f"a tuple of {len(output)} with {len(readers)} posteriors",
            "Return a dictionary: {'posterior': q, 'prior': p}, or one posterior by the name of each group.",
        )
    if readers:
        ((place, reader),) = readers.items()
        return reader.inside(element_at(place), f"element {place + 1} of {len(output)}")
    try:
        return tuple_reader(output, call)
    except NotRecognised as reason:
        raise (questions[0] if questions and not reason.question else reason) from None


def is_one_posterior(output: object) -> bool:
    """Whether a mapping is one posterior by its parts, such as mu and logvar, and not one posterior per entry."""
    return isinstance(output, Mapping) and any(
        name in POSTERIOR_NAMES
        or (AFFIXES.sub("", str(name).lower()) in MEAN_NAMES and isinstance(part, Tensor | np.ndarray | list))
        for name, part in output.items()
    )


def one_reader(output: object, call: Call, words: str, advice: str) -> Reader:
    """How to read an output with one group of latents; else an error.

    Args:
        output: What a model returned, or what the user passed.
        call: The call of the model.
        words: The subject of the error message.
        advice: The end of the error message, unless there is a question.
    """
    try:
        found = reader_of(output, call)
    except NotRecognised as reason:
        raise ConfigurationError(f"{words} must be a posterior, got {reason}. {reason.question or advice}") from reason
    if isinstance(found, Reader):
        return found
    raise ConfigurationError(f"{words} must be one posterior, got {len(found)}: {', '.join(found)}. {advice}")


def _readers_of_parts(output: Sequence[object], call: Call) -> tuple[dict[int, Reader], list[NotRecognised]]:
    """The readers of elements that are posteriors by themselves, by place; questions about others that might be.

    Next to a posterior, a distribution over as many numbers as the items have is their reconstruction.
    """
    readers: dict[int, Reader] = {}
    questions: list[NotRecognised] = []
    for place, part in enumerate(output):
        try:
            found = _own_reader(part, call)
        except NotRecognised as question:
            questions.append(question)
            continue
        if found is not None:
            readers[place] = found
    posteriors = {place: reader for place, reader in readers.items() if not _is_reconstruction(output[place], call)}
    return posteriors or readers, questions


def _is_reconstruction(part: object, call: Call) -> bool:
    if not isinstance(part, TorchDistribution) or call.items is None or call.item_numbers is None:
        return False
    numbers: int = math.prod((*part.batch_shape, *part.event_shape))
    return numbers == call.items * call.item_numbers


def _own_reader(part: object, call: Call) -> Reader | None:
    """The reader of an element that is a posterior by itself; None for tensors and everything else."""
    if part is None or isinstance(part, Tensor | np.ndarray | str | int | float):
        return None
    try:
        found = reader_of(part, call)
    except NotRecognised as reason:
        if reason.question and not isinstance(part, Mapping):
            raise
        return None
    return found if isinstance(found, Reader) else None


def _distribution_reader(output: TorchDistribution) -> Reader:
    kind = type(output).__name__
    if not _over_numbers(output):
        raise NotRecognised(
            f"a distribution {kind}, whose values are not all real numbers, so that N(0, 1) is no prior for them",
            "Pass encode= to vs.wrap to look at another part of the model.",
        )

    def parameters(found: object) -> Parameters:
        if not isinstance(found, TorchDistribution):
            raise TypeError(f"must be a distribution, got {type(found).__name__}")
        return Parameters(found.mean, found.variance)

    try:
        parameters(output).moments()
    except (NotImplementedError, AttributeError, DataError) as error:
        raise NotRecognised(f"a distribution {kind} without mean and variance for each latent ({error})") from error
    return Reader(f"a distribution {kind}", parameters)


def _over_numbers(output: TorchDistribution) -> bool:
    """Whether the values are all real numbers, unlike classes or shares; True where the distribution does not say."""
    if isinstance(output, MixtureSameFamily):
        return _over_numbers(output.component_distribution)
    try:
        support = output.support
    except NotImplementedError:
        return True
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is None or support is constraints.real


def _named_reader(output: object, call: Call) -> Reader | dict[str, Reader]:
    """The reader of a mapping, a named tuple, or any object with attributes."""
    kind, names = type(output).__name__, _names(output)
    for name in (one for one in POSTERIOR_NAMES if one in names):
        found = reader_of(_get(output, name), call)
        if not isinstance(found, Reader):
            return found
        return _with_prior(found.inside(_part(name), f"{name!r} of {kind}"), output, names, call)
    means = [name for name in names if AFFIXES.sub("", name.lower()) in MEAN_NAMES]
    spreads = {name: SPREAD_NAMES[plain] for name in names if (plain := AFFIXES.sub("", name.lower())) in SPREAD_NAMES}
    if len(means) > 1:
        raise NotRecognised(
            f"{kind} with {len(means)} means: {', '.join(means)}",
            "Pass encode=function that returns {'mean': ..., 'variance': ...} with the right one.",
        )
    if not means:
        groups = _group_readers(output, names, call)
        if groups:
            return groups
        listed = ", ".join(names) if names else "no parts with known names"
        raise NotRecognised(f"{kind} ({listed}), without a mean and a variance")
    (mean,) = means
    if not spreads and any("concentration" in name for name in names):
        raise NotRecognised(
            f"{kind} ({', '.join(names)}), a posterior that is not Gaussian: single latents have no variance there",
            "Pass encode= to look at another part of the model.",
        )
    if not spreads:
        if len(names) > 1:
            raise NotRecognised(f"{kind} ({', '.join(names)}), with a mean but without a variance")
        return Reader(f"{mean!r} of {kind}, a code without noise", lambda one: Parameters(_get(one, mean), None))
    second = min(spreads, key=lambda name: SPREADS.index(spreads[name]))
    words = f"{mean!r} and {second!r} of {kind}"
    reader = Reader(words, lambda one: Parameters(_get(one, mean), _get(one, second), spreads[second]))
    reader.posterior(output)
    return _with_prior(reader, output, names, call)


def _with_prior(reader: Reader, output: object, names: Sequence[str], call: Call) -> Reader:
    """The reader, also of the prior, if the output has one."""
    whole = next((one for one in PRIOR_NAMES if one in names), None)
    if whole is not None:
        found = reader_of(_get(output, whole), call)
        if isinstance(found, Reader):
            return Reader(reader.words, reader.parameters, found.inside(_part(whole), whole).parameters)
    own = {PRIOR_PREFIX.sub("", name): name for name in names if PRIOR_PREFIX.match(name)}
    mean = next((own[name] for name in MEAN_NAMES if name in own), None)
    spread = next((name for name in SPREAD_NAMES if name in own), None)
    if mean is None or spread is None:
        return reader
    kind = SPREAD_NAMES[spread]
    return Reader(
        reader.words,
        reader.parameters,
        lambda one: Parameters(_get(one, mean), _get(one, own[spread]), kind),
    )


def _group_readers(output: object, names: Sequence[str], call: Call) -> dict[str, Reader]:
    """One reader per entry of a mapping in which every entry is a posterior; empty otherwise."""
    if not isinstance(output, Mapping) or len(names) < 2:
        return {}
    readers = {}
    for name in names:
        part = _get(output, name)
        if isinstance(part, tuple | list) and len(part) == 2 and all(isinstance(one, Tensor) for one in part):
            found: object = tuple_reader(part, call)
        else:
            found = _own_reader(part, call)
        if not isinstance(found, Reader):
            return {}
        readers[name] = found.inside(_part(name), f"{name!r}")
    return readers


def _part(name: str) -> Callable[[object], object]:
    return lambda output: _get(output, name)


def _names(output: object) -> list[str]:
    """The names of the parts of a mapping, or of those attributes of an object that may matter."""
    if isinstance(output, Mapping):
        return [str(name) for name in output]
    return list(_attributes(output))


def _attributes(output: object) -> Iterator[str]:
    fields = getattr(output, "_fields", None) or [name for name in dir(output) if not name.startswith("_")]
    known = {*MEAN_NAMES, *SPREAD_NAMES, *POSTERIOR_NAMES, *PRIOR_NAMES}
    for name in fields:
        plain = PRIOR_PREFIX.sub("", AFFIXES.sub("", name.lower()))
        if plain in known or name in known:
            value = getattr(output, name, None)
            if value is not None and (not callable(value) or isinstance(value, Tensor)):
                yield name


def _get(output: object, name: str) -> object:
    return output[name] if isinstance(output, Mapping) else getattr(output, name)
