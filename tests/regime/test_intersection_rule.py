"""The rule "intersection": the sets of definition 6.3.1 of Bonheme's thesis, written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.errors import UnknownNameError
from vaescope.regime import LatentStatistics, variable_types

ALPHA = 0.1


def sets_of_an_example(mean: np.ndarray, variance: np.ndarray) -> tuple[set[int], set[int]]:
    """The passive and the active latents of one example (definition 4.1.1)."""
    latents = range(len(mean))
    passive = {j for j in latents if abs(mean[j]) <= ALPHA and abs(variance[j] - 1) <= ALPHA}
    return passive, {j for j in latents if variance[j] <= ALPHA}


def codes(seed: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes that are exactly active, passive or, for latents of the third kind, either, and rarely neither."""
    generator = np.random.default_rng(seed)
    share = np.array([1.0, 0.0, 0.5, 0.9, 1.0, 0.0])
    active = generator.random((items, 6)) < share
    mean = np.where(active, generator.standard_normal((items, 6)), 0.05)
    variance = np.where(active, 0.02, 1.03)
    odd = generator.random((items, 6)) < 0.02 * (generator.random(6) < 0.5)
    return mean, np.where(odd, 0.5, variance)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 60))
def test_types_are_the_intersections_over_examples(seed: int, items: int) -> None:
    mean, variance = codes(seed, items)
    sets = [sets_of_an_example(*example) for example in zip(mean, variance, strict=True)]
    passive, active = (set.intersection(*part) for part in zip(*sets, strict=True))
    assert not passive & active
    found = variable_types((mean, variance), rule="intersection")
    assert (set(found.passive), set(found.active)) == (passive, active)
    # Latents that are passive for some examples and active for others are mixed, and so is what is neither.
    either = set.union(*(one for one, _ in sets)) & set.union(*(one for _, one in sets))
    assert either <= set(found.mixed)
    assert len(found.passive) + len(found.active) + len(found.mixed) == 6


def test_a_latent_that_is_neither_active_nor_passive_is_in_no_set_of_the_definition_and_mixed_here() -> None:
    mean, variance = np.zeros((4, 1)), np.full((4, 1), 0.5)
    assert sets_of_an_example(mean[0], variance[0]) == (set(), set())
    assert variable_types((mean, variance), rule="intersection").types == ("mixed",)


def test_one_example_makes_a_latent_mixed_that_the_default_calls_active() -> None:
    mean, variance = np.random.default_rng(0).standard_normal((1000, 2)), np.full((1000, 2), 0.02)
    mean[7, 0], variance[7, 0] = 0, 1
    assert variable_types((mean, variance)).types == ("active", "active")
    found = variable_types((mean, variance), rule="intersection")
    assert found.types == ("mixed", "active")
    assert found.mixed_kinds == ("intermediate", None)


def test_a_mean_that_is_not_0_keeps_a_latent_from_being_passive() -> None:
    """The default looks at variances alone."""
    mean, variance = np.full((10, 1), 0.3), np.ones((10, 1))
    assert variable_types((mean, variance)).types == ("passive",)
    assert variable_types((mean, variance), rule="intersection").types == ("mixed",)


def test_examples_are_measured_in_units_of_their_prior() -> None:
    prior = np.full((5, 2), 2.0), np.full((5, 2), 4.0)
    mean, variance = np.tile([2.1, 2.1], (5, 1)), np.tile([4.1, 0.3], (5, 1))
    found = variable_types((mean, variance), prior=prior, rule="intersection")
    assert found.types == ("passive", "active")


def test_every_rule_can_be_the_main_one_and_all_others_stay_in_the_rows() -> None:
    pair = codes(0, 50)
    plain = variable_types(pair)
    assert plain.rule == "thesis"
    for rule, types in plain.by_rule.items():
        found = variable_types(pair, rule=rule)
        assert (found.rule, found.types, found.by_rule) == (rule, types, plain.by_rule)
        assert set(found.rows()[0]) >= {"type", *plain.by_rule} - {rule}


@pytest.mark.parametrize("rule", ["conditional", "theses"])
def test_a_rule_that_does_not_apply_is_named(rule: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"clapham, intersection, rolinek, thesis; got '{rule}'"):
        variable_types(codes(0, 20), rule=rule)


def test_statistics_of_parts_give_the_same_types() -> None:
    mean, variance = codes(1, 90)
    parts = [LatentStatistics.of(mean[start : start + 30], variance[start : start + 30]) for start in (0, 30, 60)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert variable_types(merged).by_rule == variable_types((mean, variance)).by_rule
