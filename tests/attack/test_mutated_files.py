"""Files that were mutated at random are read or refused in a sentence; no number of a run changes unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from campaign import Report, spread
from cases import limits, run
from kinds import FILES, KINDS, Kind

from vaescope.errors import VaescopeError

CASES = 200


@pytest.fixture(scope="module", autouse=True)
def _limits(attacked_folder: None) -> Iterator[None]:
    with limits():
        yield


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_mutated_files_are_refused_or_read_without_a_changed_number(kind: str) -> None:
    report = Report(tuple(run(case) for case in spread([kind], CASES, seed=0)))
    assert report.faults == [], report.distinct()


@pytest.mark.parametrize("kind", FILES)
def test_a_case_is_mutated_in_the_same_way_again(kind: str) -> None:
    case = spread([kind], 1, seed=7)[0]
    (content, _), (again, _) = case.content(), case.content()
    assert content == again
    assert content not in KINDS[kind].originals()


@pytest.mark.parametrize("kind", FILES)
def test_unmutated_files_are_read(kind: str) -> None:
    for original in KINDS[kind].originals():
        # Some options, such as another number of colours, refuse any file.
        ends = [_accepts(KINDS[kind], original, Random(seed)) for seed in range(10)]
        assert any(ends)


def _accepts(kind: Kind, content: bytes, random: Random) -> bool:
    try:
        return kind.check(content, random) is None
    except VaescopeError:
        return False
