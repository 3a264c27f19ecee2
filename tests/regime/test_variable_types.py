"""Variable types: recovered from synthetic codes by every rule and from any kind of array."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError
from vaescope.regime.statistics import LatentStatistics
from vaescope.regime.variable_types import variable_types

KINDS = ("active", "passive", "mixture", "intermediate", "active", "passive")
TYPES = ("active", "passive", "mixed", "mixed", "active", "passive")


def regime(kinds: tuple[str, ...] = KINDS, items: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Float32 codes under the polarised regime (Bonheme, definition 4.1.1; Clapham, figure 9)."""
    generator = np.random.default_rng(seed)
    means, variances = [], []
    for kind in kinds:
        noise = generator.standard_normal(items)
        awake = {"active": np.full(items, True), "passive": np.full(items, False)}.get(
            kind, generator.random(items) < 0.5
        )
        means.append(np.where(awake, noise, 0.01 * noise))
        variances.append(np.where(awake, 0.01, 1) * (1 - 0.01 * generator.random(items)))
        if kind == "intermediate":
            variances[-1] = 0.5 + 0.03 * generator.standard_normal(items)
    return np.stack(means, 1).astype(np.float32), np.stack(variances, 1).astype(np.float32)


def plain_type(variance: np.ndarray, alpha: float = 0.1) -> str:
    """Section 6.4.1, written out for one latent."""
    average = sum(float(v) for v in variance) / len(variance)
    spread = sum((float(v) - average) ** 2 for v in variance) / len(variance)
    if spread < alpha and average <= alpha:
        return "active"
    if spread < alpha and 1 - alpha <= average <= 1 + alpha:
        return "passive"
    return "mixed"


def test_synthetic_codes_have_the_types_they_were_made_with() -> None:
    found = variable_types(regime())
    assert found.types == TYPES
    assert (found.active, found.mixed, found.passive) == ((0, 4), (2, 3), (1, 5))
    assert found.counts == {"active": 2, "mixed": 2, "passive": 2}
    assert found.mixed_kinds == (None, None, "mixture", "intermediate", None, None)
    assert found.rule == "thesis"


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_the_main_rule_equals_a_plain_loop(alpha: float) -> None:
    generator = np.random.default_rng(3)
    variance = generator.beta(*generator.uniform(0.05, 5, (2, 60)), (50, 60)) * generator.uniform(0.5, 1.3, 60)
    found = variable_types((np.zeros_like(variance), variance), alpha=alpha)
    assert found.types == tuple(plain_type(column, alpha) for column in variance.T)
    assert len(set(found.types)) >= 2


def test_latents_with_a_wide_mean_are_active_under_rolinek() -> None:
    mean = np.array([[0.49], [-0.49]]) * np.array([1, 1.04, 0])
    found = variable_types((mean, np.full((2, 3), 0.01)))
    assert found.by_rule["rolinek"] == ("passive", "active", "passive")


@pytest.mark.parametrize(
    ("informed", "delta", "wanted"), [(2, 0.01, "active"), (1, 0.01, "passive"), (2, 0.02, "passive")]
)
def test_latents_near_the_prior_for_enough_examples_are_passive_under_clapham(
    informed: int, delta: float, wanted: str
) -> None:
    mean = np.zeros((100, 1))
    mean[:informed] = 3
    found = variable_types((mean, np.ones_like(mean)), epsilon=0.01, delta=delta)
    assert found.by_rule["clapham"] == (wanted,)


def test_clapham_counts_divergences_below_epsilon() -> None:
    mean = np.full((10, 1), 0.4)  # A divergence of 0.08 nats.
    codes = (mean, np.ones_like(mean))
    assert variable_types(codes, epsilon=0.081).by_rule["clapham"] == ("passive",)
    assert variable_types(codes, epsilon=0.079).by_rule["clapham"] == ("active",)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_passive_latents_of_a_conditional_prior_follow_the_prior_at_any_scale(scale: float) -> None:
    generator = np.random.default_rng(0)
    noise = generator.standard_normal((500, 4))
    prior_mean = generator.standard_normal((500, 4))
    prior_variance = scale * generator.uniform(0.5, 2, (500, 4))
    passive = prior_mean[:, :1], prior_variance[:, :1] * 1.02
    shifted = prior_mean[:, 1:2] + np.sqrt(prior_variance[:, 1:2]), prior_variance[:, 1:2]
    alternating = prior_variance[:, 2:3] * (generator.random((500, 1)) < 0.5) + 1e-5 * scale
    active = noise[:, 3:], np.full((500, 1), 1e-4)
    mean = np.hstack([passive[0], shifted[0], prior_mean[:, 2:3], active[0]])
    variance = np.hstack([passive[1], shifted[1], alternating, active[1]])
    found = variable_types((mean, variance), prior=(prior_mean, prior_variance))
    assert found.rule == "conditional"
    assert found.types == ("passive", "mixed", "mixed", "active")
    assert found.mixed_kinds[2] == "mixture"


def test_without_its_prior_a_narrow_passive_latent_looks_active() -> None:
    codes, prior = (np.zeros((10, 1)), np.full((10, 1), 0.01)), (np.zeros(1), np.full(1, 0.01))
    assert variable_types(codes).types == ("active",)
    found = variable_types(codes, prior=prior)
    assert found.types == ("passive",)
    assert found.rows()[0]["thesis"] == "active"
    assert found.rows()[0]["kl"] == pytest.approx(0, abs=1e-12)


def test_a_latent_that_is_near_0_for_some_items_is_still_active() -> None:
    """There its prior is as narrow as the posterior; proposition 5.2.1 is about the latent, not about each item."""
    mean = np.linspace(-20, 20, 201)[:, None]
    variance = np.full_like(mean, 0.5)
    prior = np.zeros_like(mean), variance + mean**2  # eq. 5.12
    found = variable_types((mean, variance), prior=prior)
    assert found.types == ("active",)
    assert found.statistics.prior is not None
    assert float(found.statistics.prior.variance.variance) > 0.01
    assert float(found.statistics.passive) > 0


@given(st.floats(-6, 6), st.integers(0, 2**32 - 1))
def test_the_scale_of_a_latent_with_a_learned_prior_does_not_matter(exponent: float, seed: int) -> None:
    """z_j may be scaled along with its prior and the decoder's weights: that is the same model."""
    generator, scale = np.random.default_rng(seed), 10.0**exponent
    mean, prior_mean = generator.standard_normal((2, 40, 5))
    variance, prior_variance = np.exp(generator.standard_normal((2, 40, 5)) * 0.1 + generator.uniform(-4, 1, (2, 1, 5)))
    one = variable_types((mean, variance), prior=(prior_mean, prior_variance))
    two = variable_types((scale * mean, scale**2 * variance), prior=(scale * prior_mean, scale**2 * prior_variance))
    assert two.by_rule["conditional"] == one.by_rule["conditional"]
    assert two.by_rule["rolinek"] == one.by_rule["rolinek"]
    assert two.by_rule["clapham"] == one.by_rule["clapham"]


def test_a_standard_prior_given_as_arrays_changes_no_type() -> None:
    assert variable_types(regime(), prior=(np.zeros(6), np.ones(6))).types == TYPES


@pytest.mark.parametrize(
    ("variance", "kind"),
    [
        ([0.5] * 10, "intermediate"),
        (np.linspace(0, 0.999, 1000), "intermediate"),
        ([0.01] * 5 + [0.99] * 5, "mixture"),
        ([0.01] * 20 + [1.05] * 80, "mixture"),
        ([0.01] * 6 + [1.0] * 6 + [0.5] * 4, "mixture"),
        ([0.01] * 4 + [1.0] * 4 + [0.5] * 6, "mixture"),  # Six in half of [0, 1] are fewer than four in a quarter.
        ([0.01] * 4 + [1.0] * 4 + [0.5] * 9, "intermediate"),
        ([0.2] * 99 + [1.0], "intermediate"),
        ([0.5] * 10 + [1.0] * 10, "intermediate"),
    ],
)
def test_a_mixture_has_modes_at_both_ends(variance: Any, kind: str) -> None:
    column = np.array(variance)[:, None]
    assert variable_types((np.zeros_like(column), column)).mixed_kinds == (kind,)


def every_store(folder: Path) -> dict[str, Any]:
    mean, variance = regime()
    tensors = torch.from_numpy(mean), torch.from_numpy(variance)
    for name, part in (("mean", mean), ("variance", variance)):
        np.save(folder / f"{name}.npy", part)
    return {
        "float64": (mean.astype(float), variance.astype(float)),
        "torch": tensors,
        "torch float64": tuple(part.double() for part in tensors),
        "list of two": list(tensors),
        "mixed": (mean, tensors[1]),
        "representation": Representation(*tensors, sample=tensors[0]),
        "memory map": tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("mean", "variance")),
        "statistics": LatentStatistics.of(mean, variance),
    }


def test_all_kinds_of_codes_give_identical_rows(tmp_path: Path) -> None:
    wanted = variable_types(regime()).rows()
    for name, codes in every_store(tmp_path).items():
        assert variable_types(codes).rows() == wanted, name


@pytest.mark.parametrize("chunk", [1, 7, 1000, 5000])
def test_chunks_and_the_order_of_items_change_nothing(chunk: int) -> None:
    mean, variance = regime(items=300)
    order = np.random.default_rng(1).permutation(300)
    found = variable_types((mean[order], variance[order]), chunk=chunk)
    wanted = variable_types((mean, variance))
    assert found.by_rule == wanted.by_rule
    for one, two in zip(found.rows(), wanted.rows(), strict=True):
        assert one.keys() == two.keys()
        numbers = [key for key, value in one.items() if isinstance(value, float)]
        assert [one[key] for key in numbers] == pytest.approx([two[key] for key in numbers], rel=1e-9, abs=1e-12)


def test_permuting_latents_permutes_types() -> None:
    mean, variance = regime()
    order = np.random.default_rng(1).permutation(6)
    assert variable_types((mean[:, order], variance[:, order])).types == tuple(TYPES[latent] for latent in order)


def test_rows_hold_types_statistics_and_divergences() -> None:
    mean, variance = regime()
    row = variable_types((mean, variance)).rows()[2]
    m, v = mean[:, 2].astype(float), variance[:, 2].astype(float)
    kl = 0.5 * (mean.astype(float) ** 2 + variance - 1 - np.log(variance.astype(float))).mean(0)
    assert list(row)[:6] == ["latent", "type", "rolinek", "clapham", "intersection", "mixed_kind"]
    assert [row[key] for key in list(row)[:6]] == [2, "mixed", "active", "active", "mixed", "mixture"]
    numbers = [m.mean(), m.var(), v.mean(), v.var(), kl[2], kl[2] / kl.sum(), 1 - v.mean()]
    assert list(row.values())[6:-1] == pytest.approx(numbers)
    assert row["passive_share"] == ((np.abs(m) <= 0.1) & (np.abs(v - 1) <= 0.1)).mean()
    assert 0.3 < row["passive_share"] < 0.7


def test_the_shares_of_the_divergence_add_up() -> None:
    assert sum(row["kl_share"] for row in variable_types(regime()).rows()) == pytest.approx(1)
    nothing = variable_types((np.zeros((3, 2)), np.ones((3, 2))))
    assert [row["kl_share"] for row in nothing.rows()] == [0, 0]


@pytest.mark.parametrize(
    ("kinds", "summary"),
    [
        (("active",) * 6 + ("mixture",) + ("passive",) * 3, "6 of 10 latents are active, 1 mixed, and 3 passive"),
        (("active", "passive"), "1 of 2 latents is active, 0 mixed, and 1 passive"),
        (("passive",), "0 of 1 latents are active, 0 mixed, and 1 passive"),
    ],
)
def test_the_summary_is_one_line(kinds: tuple[str, ...], summary: str) -> None:
    assert variable_types(regime(kinds)).summary() == summary


def test_deterministic_codes_are_active_with_infinite_divergence() -> None:
    found = variable_types((regime()[0], np.zeros((1000, 6))))
    assert found.types == ("active",) * 6
    assert {row["kl"] for row in found.rows()} == {float("inf")}
    assert {row["kl_share"] for row in found.rows()} == {None}


def test_constant_latents_and_more_latents_than_examples_are_allowed() -> None:
    mean, variance = np.zeros((2, 50)), np.ones((2, 50))
    assert variable_types((mean, variance)).counts["passive"] == 50


def test_results_are_frozen() -> None:
    found: Any = variable_types(regime())
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rule = "rolinek"


GOOD = np.ones((5, 2))


def spoiled(value: float) -> np.ndarray:
    wrong = GOOD.copy()
    wrong[3, 1] = value
    return wrong


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ((GOOD, spoiled(-2.5)), {}, "negative.* -2.5 for item 3, latent 1.* log-variance"),
    ((spoiled(np.nan), GOOD), {}, "mean must be finite, got nan for item 3, latent 1"),
    ((GOOD, spoiled(np.inf)), {}, "variance must be finite, got inf for item 3, latent 1"),
    ((GOOD, spoiled(-np.inf)), {}, "variance must be finite, got -inf for item 3, latent 1"),
    ((GOOD[:1], GOOD[:1]), {}, "2 examples, got 1"),
    ((GOOD[:0], GOOD[:0]), {}, "at least one example, got none"),
    ((GOOD, GOOD[:4]), {}, r"shape.* \(5, 2\) and \(4, 2\)"),
    ((GOOD[:, 0], GOOD[:, 0]), {}, r"mean .*table.* \(5,\)"),
    ((GOOD, GOOD[None]), {}, r"variance .*table.* \(1, 5, 2\)"),
    ((GOOD[:, :0], GOOD[:, :0]), {}, r"one latent.* \(5, 0\)"),
    (GOOD, {}, "codes .*pair.* got ndarray"),
    ((GOOD, GOOD, GOOD), {}, "codes .*pair"),
    (None, {}, "codes .*pair.* got NoneType"),
    (([*GOOD.tolist()[:4], [1]], GOOD), {}, "mean must be a full table"),
    ((GOOD.astype(complex), GOOD), {}, "mean .*real.* complex128"),
    ((GOOD, torch.ones(5, 2, dtype=torch.complex64)), {}, "variance .*real.* torch.complex64"),
    ((np.full((5, 2), "a"), GOOD), {}, "mean .*real.* <U1"),
    ((GOOD, GOOD), {"prior": GOOD}, "prior .*pair.* got ndarray"),
    ((GOOD, GOOD), {"prior": (GOOD[:3], GOOD)}, r"prior mean .*shape.* \(3, 2\)"),
    ((GOOD, GOOD), {"prior": (GOOD, np.ones(3))}, r"prior variance .* 2 latents.* \(3,\)"),
    ((GOOD, GOOD), {"prior": (GOOD, spoiled(0))}, "prior variance .*above 0.* item 3, latent 1"),
    ((GOOD, GOOD), {"prior": (GOOD[0], np.array([1.0, -1]))}, "prior variance .* negative, got -1 for latent 1"),
    ((GOOD, GOOD), {"alpha": 0}, "alpha .* 0.5, got 0"),
    ((GOOD, GOOD), {"alpha": 0.5}, "alpha .* 0.5, got 0.5"),
    ((GOOD, GOOD), {"alpha": "a"}, "alpha .* got 'a'"),
    ((GOOD, GOOD), {"epsilon": -1}, "epsilon .*above 0, got -1"),
    ((GOOD, GOOD), {"delta": 1}, "delta .* got 1"),
    ((GOOD, GOOD), {"chunk": 0}, "chunk .* got 0"),
    (LatentStatistics.of(GOOD, GOOD), {"alpha": 0.2}, "alpha must be 0.1.* got 0.2"),
    (LatentStatistics.of(GOOD, GOOD), {"prior": (GOOD, GOOD)}, "prior .* LatentStatistics.of"),
]  # fmt: skip


@pytest.mark.parametrize(("codes", "settings", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named_in_one_line(codes: Any, settings: dict[str, Any], message: str) -> None:
    setting = isinstance(codes, LatentStatistics) or settings.keys() & {"alpha", "epsilon", "delta", "chunk"}
    with pytest.raises(ConfigurationError if setting else DataError, match=message) as caught:
        variable_types(codes, **settings)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
