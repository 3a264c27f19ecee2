"""How an output of a model of another library is read as a posterior: what every reader has in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vaescope.errors import DataError
from vaescope.models.moments import Moments, Parameters, Spread


@dataclass(frozen=True)
class Reader:
    """How to read an output as a posterior.

    Attributes:
        words: What was recognised, in a few words.
        parameters: From an output to the posterior of each item, as the model gives it.
        prior_parameters: From an output to the prior of each item; None where the output has none.
    """

    words: str
    parameters: Callable[[object], Parameters]
    prior_parameters: Callable[[object], Parameters] | None = None

    def posterior(self, output: object) -> Moments:
        """The posterior of each item."""
        return self._moments(self.parameters, output)

    @property
    def prior(self) -> Callable[[object], Moments] | None:
        """From an output to the prior of each item; None where the output has none."""
        prior = self.prior_parameters
        return None if prior is None else lambda output: self._moments(prior, output)

    def _moments(self, parameters: Callable[[object], Parameters], output: object) -> Moments:
        """The moments; an error if an output differs from the one for which the reader was found."""
        try:
            return parameters(output).moments()
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise DataError(
                f"A model must return the same kind of output for every batch: the first one was read as {self.words}, "
                f"then it returned a {type(output).__name__} without it."
            ) from error

    def inside(self, part: Callable[[object], object], words: str) -> Reader:
        """The same reader, applied to a part of the output."""
        prior = self.prior_parameters
        return Reader(
            f"{words}: {self.words}",
            lambda output: self.parameters(part(output)),
            None if prior is None else lambda output: prior(part(output)),
        )


class NotRecognised(Exception):
    """Why an output is not a posterior, as the end of a sentence; `question` asks the user to decide."""

    def __init__(self, reason: str, question: str = "") -> None:
        super().__init__(reason)
        self.question = question


@dataclass(frozen=True)
class Call:
    """A call of a model, as far as it helps to read the output.

    Attributes:
        items: The number of items in the batch; None if it is not known.
        item_numbers: How many numbers an item has; tensors of that size are reconstructions. None: keep them.
        spread: What the second of a pair is. Default: a log-variance if it has negative numbers.
        log_std: The name of a layer by which the second of a pair may be the log of a standard deviation; '' for none.
        repeat: Makes the same call with other random numbers.
    """

    items: int | None = None
    item_numbers: int | None = None
    spread: Spread | None = None
    repeat: Callable[[], object] | None = None
    log_std: str = ""
