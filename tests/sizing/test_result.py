"""Round trips of FONDUE's results through tables."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from vaescope.checks import without_infinities
from vaescope.errors import RunError
from vaescope.sizing.result import Answer, Fondue, Probe
from vaescope.sizing.search import SearchResult


def found(**changes: Any) -> Fondue:
    """Two seeds, one of which never reached its threshold."""
    gaps = ((4, 0.0), (8, 0.5), (9, 1.5))
    searches = (SearchResult((8, 9), gaps, 1.0), SearchResult((9, None), gaps[:2], 1.0))
    values = (8, 9) if changes.get("over", "latents") == "latents" else (2.0, 2.5)
    answers = tuple(
        Answer(seed, value, 2 + seed, seed == 0, search)
        for seed, (value, search) in enumerate(zip(values, searches, strict=True))
    )
    probes = tuple(Probe(size, seed, 2, 5.0 + gap, 5.0, gap) for seed in (0, 1) for size, gap in gaps)
    own: dict[str, Any] = {"over": "latents", "gap": "trace", "threshold": 1.0, "start": 4, "dimension": 3.5, **changes}
    counts = {"period": 10, "steps_per_epoch": 7, "trained_steps": 60, "seconds": 1.5}
    data = {"name": "made up", "shape": [8, 8]}
    return Fondue(**{"answers": answers, "probes": probes, **counts, "data": data, "settings": {"batch": 16}, **own})


def through_json(result: Fondue) -> dict[str, Any]:
    return json.loads(json.dumps(without_infinities(result.plain()), allow_nan=False))


@pytest.mark.parametrize("over", ["latents", "beta"])
def test_a_result_is_rebuilt_from_its_table(over: str) -> None:
    result = found(over=over)
    for table in (result.plain(), through_json(result)):
        again = Fondue.from_plain(table)
        assert again == result
        assert again.summary() == result.summary()
        assert again.curve == result.curve


def test_an_infinite_gap_stays_infinite() -> None:
    search = SearchResult((8, 9), ((8, 0.0), (9, math.inf)), 1.0)
    probes = (Probe(8, 0, 1, 1.0, 1.0, 0.0), Probe(9, 0, 1, math.inf, 1.0, math.inf))
    result = dataclasses.replace(found(), answers=(Answer(0, 8, 1, True, search),), probes=probes)
    assert Fondue.from_plain(through_json(result)) == result


@pytest.mark.parametrize("missing", ["searches", "looks", "over", "period", "seeds"])
def test_an_incomplete_table_is_refused(missing: str) -> None:
    table = {name: value for name, value in found().plain().items() if name != missing}
    with pytest.raises(RunError, match=missing):
        Fondue.from_plain(table)


def test_a_search_for_each_seed_is_required() -> None:
    table = found().plain()
    with pytest.raises(RunError, match="damaged"):
        Fondue.from_plain({**table, "searches": table["searches"][:1]})
