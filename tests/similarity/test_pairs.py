"""All pairs equal those of a loop, for any widths, method, precision and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.similarity import all_pairs, linear_cka, procrustes
from vaescope.similarity.pairs import PairSizes, plan_blocks
from vaescope.similarity.products import product_in_parts, round_to_tf32

ITEMS = 120
MEASURES = {"cka": linear_cka, "procrustes": procrustes}
NARROW, MIXED, WIDE = (2, 3, 3, 1, 2, 5, 3), (3, 40, 7, 40, 200, 1, 130, 40), (60, 90, 60, 150)


def related(widths: tuple[int, ...], items: int = ITEMS, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(items, 5))
    return [
        shared @ generator.normal(size=(5, width)) + generator.normal(size=(items, width)) + generator.normal()
        for width in widths
    ]


def loop(measure: str, rows: list[np.ndarray], columns: list[np.ndarray]) -> np.ndarray:
    return np.array([[MEASURES[measure](a, b) for b in columns] for a in rows])


def way(widths: tuple[int, ...], measure: str = "cka", memory: int = 2**30) -> Any:
    return plan_blocks(PairSizes(ITEMS, widths, ()), measure, memory, 8, "cpu")


@pytest.mark.parametrize("widths", [NARROW, MIXED, WIDE, (4,), (150,)])
@pytest.mark.parametrize("measure", MEASURES)
def test_all_pairs_equal_the_loop(measure: str, widths: tuple[int, ...]) -> None:
    tables = related(widths)
    found = all_pairs(tables, measure=measure)
    assert found == pytest.approx(loop(measure, tables, tables), abs=1e-10)
    assert found == pytest.approx(found.T, abs=0)
    assert np.diag(found) == pytest.approx(np.ones(len(widths)), abs=1e-12)


@pytest.mark.parametrize("widths", [NARROW, MIXED, WIDE])
@pytest.mark.parametrize("measure", MEASURES)
def test_others_are_the_columns(measure: str, widths: tuple[int, ...]) -> None:
    rows, columns = related(widths), related(widths[::-1][:3], seed=1)
    found = all_pairs(rows, others=columns, measure=measure)
    assert found == pytest.approx(loop(measure, rows, columns), abs=1e-10)


def test_features_and_kernels_are_both_tested() -> None:
    assert not way(NARROW).kernels
    assert way(MIXED).kernels
    assert way(WIDE).kernels
    assert not way(WIDE, "procrustes").kernels


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("widths", [NARROW, MIXED, WIDE])
@pytest.mark.parametrize("measure", MEASURES)
def test_lower_precision_costs_at_most_a_ten_thousandth(measure: str, widths: tuple[int, ...], precision: str) -> None:
    # A thousand items, as TF32's errors fall with their number.
    tables = related(widths, 1000)
    given = [torch.from_numpy(one).float() for one in tables]
    assert all_pairs(given, measure=measure, precision=precision) == pytest.approx(
        loop(measure, tables, tables), abs=1e-4 if precision == "tf32" else 1e-5
    )
    others = all_pairs(given[:2], others=given[2:], measure=measure, precision=precision)
    assert others == pytest.approx(loop(measure, tables[:2], tables[2:]), abs=1e-4)


def test_precision_follows_the_input() -> None:
    tables = related(WIDE)
    single = [one.astype(np.float32) for one in tables]
    exact = loop("cka", tables, tables)
    assert np.abs(all_pairs(single) - exact).max() > 1e-9
    assert np.abs(all_pairs([*single[:-1], tables[-1]]) - exact).max() < 1e-7
    assert all_pairs(single, precision="float64") == pytest.approx(loop("cka", single, single), abs=1e-10)


def test_rounding_to_tf32_keeps_ten_bits_to_the_nearest() -> None:
    values = torch.tensor(
        [1.0, -1.0, 1 + 2**-10, 1 + 2**-11 + 2**-20, 1 + 2**-12, -(1 + 2**-10 + 2**-11 + 2**-20), 0.0]
    )
    expected = torch.tensor([1.0, -1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -(1 + 2**-9), 0.0])
    assert torch.equal(round_to_tf32(values.clone()), expected)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("widths", [NARROW, MIXED, WIDE])
def test_little_memory_changes_nothing(measure: str, widths: tuple[int, ...]) -> None:
    tables = related(widths)
    with pytest.raises(ConfigurationError, match="memory must be at least") as caught:
        all_pairs(tables, measure=measure, memory=1)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    found = all_pairs(tables, measure=measure, memory=least)
    assert found == pytest.approx(loop(measure, tables, tables), abs=1e-10)
    assert all_pairs(tables[:3], others=tables[3:], measure=measure, memory=20 * least) == pytest.approx(
        loop(measure, tables[:3], tables[3:]), abs=1e-10
    )


def peak_bytes(work: Any) -> int:
    """Peak memory of tensors, from torch's profiler of allocations."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


@pytest.mark.parametrize("widths", [(8,) * 60, (64,) * 60])
@pytest.mark.parametrize("memory", [2**20 * 3, 2**20 * 24])
def test_the_memory_limit_is_respected(widths: tuple[int, ...], memory: int) -> None:
    tables = [torch.from_numpy(one).float() for one in related(widths, 600)]
    exact = all_pairs(tables)
    found: list[np.ndarray] = []
    most = peak_bytes(lambda: found.append(all_pairs(tables, memory=memory)))
    assert 0 < most <= memory
    assert found[0] == pytest.approx(exact, abs=1e-5)


def test_an_accelerators_sums_in_parts_are_the_same_sums() -> None:
    left, right = (torch.from_numpy(one.T).float().contiguous() for one in related((5, 7), 160))
    assert torch.allclose(product_in_parts(left, right), (left.double() @ right.double().T), rtol=1e-5, atol=1e-3)


def test_copies_are_kept_only_where_they_fit() -> None:
    assert way(WIDE).keep
    assert not way(WIDE, memory=ITEMS * sum(WIDE) * 8).keep
    assert way(WIDE, memory=ITEMS * sum(WIDE) * 8).bytes <= ITEMS * sum(WIDE) * 8


def test_wrong_input_is_named() -> None:
    tables = related((3, 4, 5))
    with pytest.raises(DataError, match="representation 1 must vary"):
        all_pairs([tables[0], np.ones((ITEMS, 2)), tables[2]])
    with pytest.raises(DataError, match="other representation 0 must vary"):
        all_pairs(tables, others=[np.ones((ITEMS, 2))])
    broken = tables[2].copy()
    broken[7, 1] = np.nan
    with pytest.raises(DataError, match=r"decoder.*nan.*item 7, feature 1"):
        all_pairs({"encoder": tables[0], "decoder": broken})
    with pytest.raises(DataError, match="representation 0 has 120 and representation 2 has 119"):
        all_pairs([tables[0], tables[1], tables[2][1:]])
    with pytest.raises(DataError, match="has 120 and mean has 119"):
        all_pairs({"mean": tables[0], "sampled": tables[1]}, others={"mean": tables[0][1:]})
    with pytest.raises(DataError, match="at least one"):
        all_pairs([])
    with pytest.raises(DataError, match="got int"):
        all_pairs(3)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="'rsa'"):
        all_pairs(tables, measure="rsa")
    with pytest.raises(UnknownNameError, match="'half'"):
        all_pairs(tables, precision="half")
    with pytest.raises(ConfigurationError, match="memory"):
        all_pairs(tables, memory=0)
