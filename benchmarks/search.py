"""Answers and models of a search in rounds and of an interpolated one, on the same models of small nets on a CPU.

Each data set is searched by both with the same seeds in one folder, so that a model that both ask for is trained once
and gives both the same gap. The raw output has the gaps of each last period; the printed rows have the answers, how
many equal those of the search in rounds, the models of each search, and their periods of training.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorded import add_json, save

from vaescope.nets import MLP
from vaescope.sizing import Fondue, fondue
from vaescope.sizing.kinds import INTERPOLATE, ROUNDS

KINDS = (ROUNDS, INTERPOLATE)
NET = MLP((32,), (32,))
BATCH, LEARNING_RATE, PROBE_ITEMS, MAX_PERIODS, LARGEST = 32, 5e-3, 1000, 4, 32
GAUSSIAN = {"name": "gaussian-manifold", "items": 1500, "ambient": 40, "noise": 0.3}


@dataclass(frozen=True)
class Case:
    """Data and the beta of the models."""

    label: str
    data: Mapping[str, object]
    beta: float = 1.0


CASES = (
    Case("Gaussian of 4", {**GAUSSIAN, "dimension": 4}),
    Case("Gaussian of 10", {**GAUSSIAN, "dimension": 10}),
    Case("digits", {"name": "digits"}),
    Case("Gaussian of 10, beta 4", {**GAUSSIAN, "dimension": 10}, 4.0),
    Case("dsprites-small", {"name": "dsprites-small"}),
)


def searched(case: Case, kind: str, seeds: int, period: int, runs: Path) -> Fondue:
    """The search of all seeds, which trains what is not in the folder yet."""
    return fondue(
        case.data,
        search=kind,
        objective={"name": "beta", "beta": case.beta},
        seeds=seeds,
        net=NET,
        batch=BATCH,
        learning_rate=LEARNING_RATE,
        probe_items=PROBE_ITEMS,
        largest=LARGEST,
        period=period,
        max_periods=MAX_PERIODS,
        device="cpu",
        runs=runs,
        progress=False,
    )


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row per data set and kind of search."""
    for case in CASES:
        if given.cases and case.label not in given.cases:
            continue
        with tempfile.TemporaryDirectory() as folder:
            usual: tuple[float, ...] = ()
            for kind in KINDS:
                began = time.process_time()
                found = searched(case, kind, given.seeds, given.period, Path(folder))
                usual = usual or found.values
                apart = [abs(one - other) for one, other in zip(found.values, usual, strict=True)]
                yield {
                    "data": case.label,
                    "search": kind,
                    "start": found.start,
                    "answers": found.values,
                    "equal": apart.count(0),
                    "apart": max(apart),
                    "models": [row["models"] for row in found.rows()],
                    "model_periods": sum(probe.periods for probe in found.probes),
                    "periods": [answer.periods for answer in found.answers],
                    "stable": found.stable,
                    "not_monotone": sum(bool(answer.search.contradictions) for answer in found.answers),
                    "newly_trained_steps": found.trained_steps,
                    "cpu_seconds": round(time.process_time() - began, 1),
                    "gaps": [answer.search.gaps for answer in found.answers],
                }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--period", type=int, default=300, help="steps between answers")
    parser.add_argument("--cases", nargs="*", help="labels of data sets; default: all")
    add_json(parser)
    given = parser.parse_args(arguments)
    found = []
    for row in rows(given):
        print({name: value for name, value in row.items() if name != "gaps"}, flush=True)
        found.append(row)
    settings = {"net": "mlp 32", "batch": BATCH, "learning_rate": LEARNING_RATE, "probe_items": PROBE_ITEMS}
    settings |= {"max_periods": MAX_PERIODS, "largest": LARGEST}
    shown = [{name: value for name, value in row.items() if name not in ("gaps", "periods")} for row in found]
    shown = [{**row, "models": sum(row["models"])} for row in shown]
    notes = [
        "Both kinds of search use the same models: a model that both ask for is trained once. `equal` counts seeds "
        "with the answer of the search in rounds, `apart` is the largest difference."
    ]
    title = "Search in rounds and by interpolation"
    save(given, __file__, title, {"searches": shown}, settings=settings, notes=notes, raw=found)


if __name__ == "__main__":
    main()
