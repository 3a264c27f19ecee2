"""The facts that the headline and the cards of one diagnosis share, and the state that they add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from vaescope.diagnosis.cards import collapsed_latents, is_deterministic
from vaescope.diagnosis.claims import (
    CODES_ONLY,
    COLLAPSED,
    DIVERGED,
    FINE,
    OVERFITTED,
    POOR,
    UNDERTRAINED,
    State,
)
from vaescope.diagnosis.course import FALLING, LAST_SHARE, LEVEL, RISING, UNKNOWN, Course
from vaescope.diagnosis.reconstruction import Reconstruction
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE
from vaescope.regime import SAMPLED, Collapse, DeltaKL, Downstream, MutualInformation, VariableTypes
from vaescope.runs.probes import History, probes_of

Source = Literal["run", "model", "codes"]

MAX_FORMED_DELTA = 0.03  # relative error of the rate below which the regime has formed (Rolinek et al., section 5.2)
MOST_LATENTS = 0.5  # share of latents above which collapse is a warning
MIN_INFORMATION = 0.01  # nats; below it the codes carry no information
MIN_EXPLAINED = 0.25  # share of the variance in the data, below which reconstructions are poor
GOOD_EXPLAINED = 0.5  # above which they are good
SETTLED_EXPLAINED = 0.8  # above which more training adds detail
CHANCE_ERRORS = 3  # standard errors by which an accuracy must exceed chance


@dataclass(frozen=True)
class Facts:
    """What is known about one subject.

    Attributes:
        source: What the codes come from: a 'run', a 'model' of another library, or 'codes' alone.
        found: Types and rates of the latents.
        formed: How far the rate is from that of the polarised regime; None if this cannot be said.
        information: What the codes carry; None for codes without a finite rate.
        course: How the loss ended; None without a history.
        reconstruction: None without a decoder, and then `not_reconstructed` says why.
        downstream: Predictions from the codes; None unless requested.
        history: The rows of the history.
        spatial: Whether types were counted over the positions of items.
        strengths: The weights of the objective in words, such as 'beta 4'; empty if they are not known.
    """

    source: Source
    found: Collapse
    formed: DeltaKL | None = None
    information: MutualInformation | None = None
    course: Course | None = None
    reconstruction: Reconstruction | None = None
    not_reconstructed: str = ""
    downstream: Downstream | None = None
    history: History = ()
    spatial: bool = False
    strengths: str = ""

    @property
    def types(self) -> VariableTypes:
        """The types of the latents."""
        return self.found.types

    @property
    def latents(self) -> int:
        """The number of latents."""
        return len(self.found.rates)

    @property
    def items(self) -> int:
        """The number of items, or positions of items, over which types were counted."""
        return self.types.statistics.count

    @cached_property
    def deterministic(self) -> bool:
        """Whether every variance is zero."""
        return is_deterministic(self.types)

    @cached_property
    def collapsed(self) -> tuple[int, ...]:
        """The latents that equal the prior."""
        return () if self.deterministic else collapsed_latents(self.types)

    @cached_property
    def removable(self) -> tuple[int, ...]:
        """The latents that can be removed: those that equal the prior, of a model that is trained and has others."""
        some_are_kept = 0 < len(self.collapsed) < self.latents
        usable = self.state not in (UNDERTRAINED, DIVERGED, POOR, COLLAPSED) and not self.predicted_from_passive
        return self.collapsed if some_are_kept and usable else ()

    @property
    def used(self) -> tuple[int, ...]:
        """The active and mixed latents."""
        return tuple(sorted((*self.types.active, *self.types.mixed)))

    @property
    def explained(self) -> float | None:
        """The share of the variance in the data that reconstructions explain."""
        return None if self.reconstruction is None else self.reconstruction.explained

    @property
    def carried(self) -> float | None:
        """The information that the codes carry in nats; an estimate for codes without any can be below 0 by chance."""
        return None if self.information is None else max(self.information.information, 0.0)

    @property
    def is_formed(self) -> bool | None:
        """Whether the polarised regime has formed."""
        return None if self.formed is None else self.formed.value < MAX_FORMED_DELTA

    @property
    def is_poor(self) -> bool:
        """Whether reconstructions are hardly better than the mean item."""
        return self.explained is not None and self.explained < MIN_EXPLAINED

    @cached_property
    def above_chance(self) -> float:
        """The accuracy above which predictions are better than chance."""
        assert self.downstream is not None
        chance = self.downstream.guess("majority")
        return chance + CHANCE_ERRORS * math.sqrt(chance * (1 - chance) / self.downstream.test_items)

    @property
    def predicted_from_passive(self) -> bool:
        """Whether samples of the passive latents predict factors or labels better than chance."""
        found = None if self.downstream is None else self.downstream.average(SAMPLED, PASSIVE)
        return found is not None and found > self.above_chance

    @property
    def was_alive(self) -> bool:
        """Whether a probe found an active latent."""
        return any(probe[ACTIVE] > 0 for probe in probes_of(self.history))

    @cached_property
    def is_undertrained(self) -> bool:
        """Whether training was too short to judge the latents.

        It was if the weights of the loss changed to the end, if nothing has formed yet, or if the loss still falls and
        the latents have not settled. A fall alone is not enough: the loss of a deep model falls slowly for a long time,
        and what it gains in the end is detail.
        """
        if self.course is None:
            return False
        if self.course.unsettled:
            return True
        if self.course.trend == FALLING:
            return not self.has_settled
        return self.course.trend == UNKNOWN and self.is_formed is not True

    @cached_property
    def has_settled(self) -> bool:
        """Whether more training would hardly change what is said about the latents.

        The polarised regime has formed, reconstructions explain at least `SETTLED_EXPLAINED` of the variance, and all
        probes of the last third of training, at least two, found the same number of active latents. The numbers of
        mixed and passive latents are no criterion: latents near the threshold change between the two by chance.
        """
        if not self.is_formed or self.explained is None or self.explained < SETTLED_EXPLAINED:
            return False
        probes = probes_of(self.history)
        begin = (1 - LAST_SHARE) * max((probe["step"] for probe in probes), default=0)
        late = [probe[ACTIVE] for probe in probes if probe["step"] >= begin]
        return len(late) > 1 and len({*late, len(self.types.active)}) == 1

    @cached_property
    def state(self) -> State:
        """What matters most."""
        trend = UNKNOWN if self.course is None else self.course.trend
        if trend == RISING and self.course is not None and not self.course.overfitted:
            return DIVERGED
        empty = self.carried is not None and self.carried < MIN_INFORMATION
        all_collapsed = empty or len(self.collapsed) == self.latents
        if all_collapsed and (trend == LEVEL or self.was_alive or not self.is_undertrained):
            return COLLAPSED
        if self.is_undertrained:
            return UNDERTRAINED
        if self.is_poor:
            return COLLAPSED if len(self.collapsed) > MOST_LATENTS * self.latents else POOR
        if trend == RISING:
            return OVERFITTED
        return CODES_ONLY if self.source == "codes" else FINE
