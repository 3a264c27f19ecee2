"""The gaps of FONDUE against numpy and plain loops, on codes made by hand and on linear models."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import one_hot

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.dimension import mle
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.models import Architecture, Linear
from vaescope.nets import MLP
from vaescope.numerics import renyi
from vaescope.regime import mean_and_sampled, variable_types
from vaescope.sizing.gaps import (
    AVERAGINGS,
    GAPS,
    Evidence,
    Gap,
    GapTerms,
    Information,
    IntrinsicDimension,
    Trace,
    measure,
    resolve_gap,
    truncated_mean,
)

ITEMS = 2000


def normal(seed: int, items: int, columns: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(items, columns)))


def evidence_of(mean: Tensor, sample: Tensor, model: nn.Module | None = None) -> Evidence:
    """Codes made by hand, with items that only the information gap uses."""
    codes = Representation(mean, torch.ones_like(mean), sample)
    items = open_dataset(normal(9, len(mean), 3).numpy())
    return Evidence(nn.Identity() if model is None else model, items, codes)


def hand_made(active: int = 3, passive: int = 0, items: int = ITEMS, seed: int = 0) -> Evidence:
    """Active latents with little noise; passive ones with a mean of 0 and samples from N(0, 1)."""
    mean = torch.cat([normal(seed, items, active), torch.zeros(items, passive)], 1)
    noise = torch.cat([0.01 * normal(seed + 1, items, active), normal(seed + 2, items, passive)], 1)
    return evidence_of(mean, mean + noise)


def linear_evidence(latents: int, items: int = 60, directions: int = 3, dimensions: int = 6) -> Evidence:
    """The linear model of items that vary in `directions` directions, plus a little noise."""
    rows = normal(5, items, directions) @ normal(6, directions, dimensions) + 0.05 * normal(7, items, dimensions)
    data = open_dataset(rows.to(torch.float32).numpy())
    model = Linear.fit(data, latents, gamma=0.01)
    return Evidence(model, data, encode(model, data))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_trace_is_that_of_numpy(kind: torch.dtype) -> None:
    one = hand_made(3, 2)
    one = evidence_of(one.codes.mean.to(kind) + 100, one.codes.sample.to(kind) + 100)
    found = Trace()(one)
    sampled, mean = (np.cov(codes.numpy().astype(float), rowvar=False) for codes in (one.codes.sample, one.codes.mean))
    assert found.minuend == pytest.approx(np.trace(sampled), rel=1e-10)
    assert found.subtrahend == pytest.approx(np.trace(mean), rel=1e-10)
    assert found.gap == pytest.approx(found.minuend - found.subtrahend, abs=1e-12)


def test_the_trace_is_that_of_the_comparison_of_both_representations() -> None:
    one = hand_made(3, 2)
    compared = mean_and_sampled(one.codes, ["active"] * 3 + ["passive"] * 2)
    assert Trace()(one) == GapTerms(compared.sampled_trace, compared.mean_trace)
    assert measure(Trace(), one).gap == pytest.approx(compared.trace_difference, abs=1e-12)


def test_latents_less_the_gap_of_traces_are_the_well_determined_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, variance = normal(0, ITEMS, 4), torch.tensor([0.01, 0.3, 0.9, 1.0]).double().expand(ITEMS, 4)
    sample = mean + variance.sqrt() * torch.randn(ITEMS, 4, generator=generator, dtype=torch.float64)
    expected = variable_types((mean, variance)).well_determined
    assert expected == pytest.approx(1.79)
    assert 4 - Trace()(evidence_of(mean, sample)).gap == pytest.approx(expected, abs=6 * math.sqrt(8 / ITEMS))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(0, 6), st.integers(0, 1000))
def test_each_passive_latent_adds_1_to_the_gap_of_traces(active: int, passive: int, seed: int) -> None:
    gap = Trace()(hand_made(active, passive, seed=seed)).gap
    # The variance of 2000 normal draws has a deviation of sqrt(2 / 1999).
    assert gap == pytest.approx(passive, abs=6 * math.sqrt(2 * (active + passive) / (ITEMS - 1)))


def test_active_latents_with_a_passive_one_are_beyond_half_the_threshold_and_two_beyond_it() -> None:
    gaps = [Trace()(hand_made(4, passive)).gap for passive in range(3)]
    assert gaps[0] < 0.5 < gaps[1] < 1.5 < gaps[2]


@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_the_gap_of_dimensions_is_that_of_two_estimates(averaging: str) -> None:
    one = hand_made(3, 2, items=600)
    found = IntrinsicDimension(k=10, averaging=averaging)(one)
    assert found.minuend == pytest.approx(mle(one.codes.sample, 10, averaging).dimension)
    assert found.subtrahend == pytest.approx(mle(one.codes.mean, 10, averaging).dimension)


def test_the_gap_of_dimensions_rises_with_passive_latents() -> None:
    gaps = [IntrinsicDimension()(hand_made(2, passive, items=1500)).gap for passive in (0, 1, 2, 4)]
    assert abs(gaps[0]) < 0.3
    for passive, gap in zip((1, 2, 4), gaps[1:], strict=True):
        assert gap == pytest.approx(passive, rel=0.35)
    assert gaps == sorted(gaps)


def test_a_collapsed_model_has_means_of_dimension_0() -> None:
    found = IntrinsicDimension()(evidence_of(torch.full((500, 3), 0.25), normal(0, 500, 3)))
    assert found.subtrahend == 0
    assert found.gap > 2
    still = torch.zeros(500, 3)
    assert IntrinsicDimension()(evidence_of(still, still)) == GapTerms(0.0, 0.0)


@pytest.mark.parametrize(("name", "few"), [("mean", 7), ("sampled", 20)])
def test_too_few_distinct_codes_are_named(name: str, few: int) -> None:
    many, repeated = normal(0, 210, 2), normal(1, few, 2).repeat(210 // few, 1)[:210]
    pair = (repeated, many[: len(repeated)]) if name == "mean" else (many[: len(repeated)], repeated)
    with pytest.raises(DataError, match=f"{name}.*{few}"):
        IntrinsicDimension()(evidence_of(*pair))


def reference_entropy(kernel: np.ndarray) -> float:
    """S_2 of a kernel with ones on the diagonal."""
    total = 0.0
    for i in range(len(kernel)):
        for j in range(len(kernel)):
            total += (kernel[i, j] / len(kernel)) ** 2
    return -math.log2(total)


def reference_kernel(rows: np.ndarray) -> np.ndarray:
    items, columns = rows.shape
    width = rows.std() * items ** (-1 / (4 + columns))
    return np.array([[math.exp(-((one - two) ** 2).sum() / (2 * width**2)) for two in rows] for one in rows])


def reference_information(
    one: Evidence, blocks: list[np.ndarray], cut: Callable[[float], float]
) -> tuple[float, float]:
    """H(z) and I(x, x_hat), averaged over blocks of items."""
    model: Any = one.model
    z = one.codes.sample.numpy().astype(float)
    x = one.items.batch(torch.arange(len(one.items))).numpy().astype(float)
    x_hat = z @ model.loadings.numpy().T + model.offset.numpy()
    entropies, shared = [], []
    for block in blocks:
        kernels = [reference_kernel(rows[block]) for rows in (z, x, x_hat)]
        entropies.append(cut(reference_entropy(kernels[0])))
        apart = reference_entropy(kernels[1]) + reference_entropy(kernels[2])
        shared.append(cut(apart - reference_entropy(kernels[1] * kernels[2])))
    return sum(entropies) / len(blocks), sum(shared) / len(blocks)


@pytest.mark.parametrize(("block", "blocks"), [(20, 3), (25, 2), (1000, 1)])
def test_the_gap_of_information_is_that_of_plain_loops(block: int, blocks: int) -> None:
    one = linear_evidence(2)
    exact = Information(block=block, decimals=None)(one)
    every = [np.arange(len(one.items))[first::blocks] for first in range(blocks)]
    expected = reference_information(one, every, lambda bits: bits)
    assert (exact.minuend, exact.subtrahend) == pytest.approx(expected, abs=1e-6)
    cut = Information(block=block)(one)
    expected = reference_information(one, every, lambda bits: math.trunc(bits * 100) / 100)
    assert (cut.minuend, cut.subtrahend) == pytest.approx(expected, abs=1e-9)


def with_duplicates(one: Evidence, copies: int) -> Evidence:
    """The first items repeated at the end; with whole numbers other items also share their first values."""
    x = one.items.batch(torch.arange(len(one.items))).round()
    return dataclasses.replace(one, items=open_dataset(torch.cat((x[:-copies], x[:copies])).numpy()))


@pytest.mark.parametrize("block", [20, 25, 1000])
def test_sorted_blocks_are_those_of_the_thesis_code(block: int) -> None:
    one = with_duplicates(linear_evidence(2), 7)
    items = one.items.batch(torch.arange(len(one.items))).numpy()
    rows = sorted({tuple(row): position for position, row in reversed(list(enumerate(items.tolist())))}.items())
    positions = np.array([position for _, position in rows])
    assert len(positions) <= len(items) - 7
    blocks = [positions[first : first + block - 1] for first in range(0, len(positions), block)]
    read = Information(block=block, decimals=None, cut="sorted")(one)
    expected = reference_information(one, blocks, lambda bits: bits)
    assert (read.minuend, read.subtrahend) == pytest.approx(expected, abs=1e-6)


def test_codes_of_sorted_blocks_have_less_entropy_where_the_order_of_items_is_that_of_codes() -> None:
    one = linear_evidence(2, items=300)
    spread, ordered = (Information(block=60, decimals=None, cut=cut)(one) for cut in ("spread", "sorted"))
    assert ordered.minuend < spread.minuend - 0.1


def test_the_gap_of_information_is_below_0_for_too_few_latents_and_about_0_for_enough() -> None:
    gaps = {
        latents: Information()(linear_evidence(latents, items=300, directions=8, dimensions=20)).gap
        for latents in (1, 3, 5, 8, 12)
    }
    assert max(gaps[latents] for latents in (1, 3, 5)) < -0.1
    assert all(-0.01 < gaps[latents] < 0.05 for latents in (8, 12))


def test_how_many_codes_are_decoded_at_once_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    one = linear_evidence(2)
    whole = Information(decimals=None)(one)
    monkeypatch.setattr("vaescope.sizing.gaps.DECODED_AT_ONCE", 7)
    parts = Information(decimals=None)(one)
    assert parts.subtrahend == pytest.approx(whole.subtrahend, abs=1e-9)


def test_a_collapsed_model_has_no_information() -> None:
    one = linear_evidence(2)
    model: Any = one.model
    with torch.no_grad():
        model.loadings.zero_()
    # All reconstructions are the same item: no entropy, no information.
    assert Information()(one).subtrahend == 0
    assert Information()(one).gap > 0


def test_information_needs_no_gradients() -> None:
    one = linear_evidence(2)
    model: Any = one.model
    model.loadings.requires_grad_(True)
    assert math.isfinite(Information()(one).gap)
    assert model.loadings.grad is None


def test_a_hundredth_below_is_within_a_threshold_of_a_hundredth() -> None:
    assert 4.99 - 5.0 > -0.01
    assert GapTerms(4.99, 5.0).gap <= -0.01


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(1, 30))
def test_a_gap_of_terms_in_hundredths_is_rounded_correctly(one: int, two: int, blocks: int) -> None:
    # Of averages over blocks too, where the difference is a whole number of hundredths.
    found = GapTerms((one + two * blocks) / (100 * blocks), one / (100 * blocks)).gap
    assert found == two / 100


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_a_gap_is_the_difference_of_its_terms_up_to_rounding(one: float, two: float) -> None:
    difference = one - two
    assert GapTerms(one, two).gap == pytest.approx(difference, rel=1e-14, abs=1e-14 * max(abs(one), abs(two)))


@pytest.mark.parametrize("terms", [(1.0, 1.0, 1.0), (0.29, 0.58, 0.57), (2.999999999999999, 3.0, 3.0)])
def test_rounding_does_not_cost_a_step_of_truncation(terms: tuple[float, ...]) -> None:
    assert truncated_mean(terms, 2) == pytest.approx(sum(terms) / 3, abs=1e-12)


def test_truncation_goes_towards_0() -> None:
    assert truncated_mean((1.239, 1.231), 2) == 1.23
    assert truncated_mean((-0.019,), 2) == -0.01
    assert truncated_mean((1.9, 2.9), 0) == 1.5


def test_codes_of_other_items_are_refused() -> None:
    one = linear_evidence(2)
    with pytest.raises(DataError, match="60 rows for the 50 items"):
        Information()(dataclasses.replace(one, items=open_dataset(normal(0, 50, 6).numpy())))


def test_a_model_that_cannot_decode_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"decode.*Identity"):
        Information()(hand_made(items=30))


class Decoder(nn.Module):
    """A user's model whose decoder returns a given value."""

    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.decode = answer


def test_a_decoder_without_a_distribution_is_named() -> None:
    one = dataclasses.replace(hand_made(items=30), model=Decoder(lambda z: z))
    with pytest.raises(ConfigurationError, match=r"Decoder\.decode"):
        Information()(one)


def test_reconstructions_that_diverged_are_refused() -> None:
    one = dataclasses.replace(hand_made(items=30), model=Decoder(lambda z: SimpleNamespace(mean=z / 0)))
    with pytest.raises(DataError, match=r"reconstructions.*finite"):
        Information()(one)


def test_a_users_model_without_parameters_is_measured() -> None:
    one = dataclasses.replace(hand_made(items=30), model=Decoder(lambda z: SimpleNamespace(mean=z.view(-1, 1, 3))))
    assert 0 < Information()(one).minuend <= math.log2(30)


@pytest.mark.parametrize("gap", [Trace(), IntrinsicDimension(), Information()], ids=lambda gap: type(gap).__name__)
def test_codes_that_diverged_are_named(gap: Gap) -> None:
    one = hand_made(items=30)
    one.codes.sample[4, 1] = math.nan
    with pytest.raises(DataError, match="item 4, latent 1"):
        measure(gap, one)


def test_a_users_function_is_a_gap() -> None:
    def spread(evidence: Evidence) -> float:
        return float(evidence.codes.mean.std())

    one = hand_made()
    assert measure(spread, one) == GapTerms(float(one.codes.mean.std()), 0.0)
    assert measure(lambda evidence: np.float32(0.5), one).gap == 0.5
    assert measure(lambda evidence: 3, one).gap == 3


def test_a_users_object_is_a_gap() -> None:
    class Ratio:
        threshold = 0.3

        def __call__(self, evidence: Evidence) -> GapTerms:
            return GapTerms(2.0, 1.5)

    own: Gap = Ratio()
    assert measure(own, hand_made()).gap == 0.5
    assert measure(own, hand_made()).gap > own.threshold


@pytest.mark.parametrize(
    "answer", [None, "1.0", True, torch.tensor(1.0), np.ones(3), (1.0, 2.0), GapTerms("one", 0.0)], ids=repr
)
def test_a_gap_that_returns_no_number_is_named(answer: Any) -> None:
    def mine(evidence: Evidence) -> Any:
        return answer

    with pytest.raises(ConfigurationError, match="the gap mine"):
        measure(mine, hand_made(items=30))


@pytest.mark.parametrize("answer", [math.nan, math.inf, -math.inf, GapTerms(1.0, math.nan), GapTerms(math.inf, 0.0)])
def test_a_gap_that_is_not_finite_is_named(answer: Any) -> None:
    class Mine:
        def __call__(self, evidence: Evidence) -> Any:
            return answer

    with pytest.raises(DataError, match=r"Mine.*finite"):
        measure(Mine(), hand_made(items=30))


@pytest.mark.parametrize("gap", [1.0, None, Trace])
def test_objects_that_are_not_gaps_are_refused(gap: Any) -> None:
    with pytest.raises(ConfigurationError, match="dimension, information, trace"):
        resolve_gap(gap)


@pytest.mark.parametrize("name", sorted(GAPS))
def test_a_gap_is_rebuilt_from_its_table(name: str) -> None:
    gap = GAPS.resolve(name)
    written = json.loads(json.dumps(GAPS.plain(gap)))
    assert written["name"] == name
    assert GAPS.resolve(written) == gap
    assert GAPS.resolve({"name": name, "threshold": 0.5}).threshold == 0.5


def test_the_thresholds_are_those_of_the_thesis() -> None:
    assert [GAPS[name]().threshold for name in ("trace", "dimension", "information")] == [1.0, 1.0, -0.01]


@pytest.mark.parametrize(
    ("gap", "setting", "message"),
    [
        (Trace, {"threshold": math.nan}, "threshold must be a finite number, got nan"),
        (IntrinsicDimension, {"threshold": "1"}, "threshold must be a finite number"),
        (IntrinsicDimension, {"k": 2}, "k must be a whole number of at least 3, got 2"),
        (Information, {"threshold": None}, "threshold must be a finite number"),
        (Information, {"block": 1}, "block must be a whole number of at least 2, got 1"),
        (Information, {"block": 2, "cut": "sorted"}, "block must be a whole number of at least 3, got 2"),
        (Information, {"alpha": 0}, "alpha must be a finite number above 0, got 0"),
        (Information, {"decimals": -1}, "decimals must be a whole number from 0 to 6, got -1"),
        (Information, {"decimals": 1.5}, "decimals must be a whole number"),
    ],
)
def test_a_setting_out_of_range_is_named(gap: type[Any], setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        gap(**setting)


def test_an_unknown_averaging_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"levina-bickel, mackay-ghahramani.*'mean'"):
        IntrinsicDimension(averaging="mean")


def test_an_unknown_cut_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"sorted, spread.*'random'"):
        Information(cut="random")


def test_a_conditional_model_decodes_with_its_label() -> None:
    data = open_dataset("digits").draw(60)
    model = Architecture("conditional", net=MLP((8,), (8,)), condition=10).build(data.shape, 3, seed=0)
    evidence = Evidence(model, data, encode(model, data))
    reading = Information(block=60, decimals=None)(evidence)
    told = one_hot(data.labels.long(), 10).float()
    with torch.no_grad():
        decoded = model.decode(evidence.codes.sample, told).mean.flatten(1)
    items = data.batch(torch.arange(60)).flatten(1)
    expected = renyi.mutual_information(renyi.gram(items), renyi.gram(decoded), 2.0)
    assert reading.subtrahend == pytest.approx(expected, rel=1e-6)
