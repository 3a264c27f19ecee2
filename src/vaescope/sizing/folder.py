"""The folder of a search: by everything that its measurements depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeGuard

from vaescope.runs.record import hash_of
from vaescope.sizing.gaps import GAPS, Gap, GapFunction, Trace
from vaescope.sizing.setup import Setup
from vaescope.sizing.store import SEARCH_PREFIX
from vaescope.training import OPTIMISERS


def search_folder(
    runs: str | Path | None, setup: Setup, data: Mapping[str, object], gaps: Iterable[Gap | GapFunction]
) -> Path | None:
    """The folder of a search, by everything that its measurements depend on, but not by seeds, start or threshold.

    Several gaps share the folder of 'trace'. Searches with your own gap are not stored, because nothing on disk could
    tell it from another.
    """
    known = list(gaps)
    registered = [gap for gap in known if _is_registered(gap)]
    if runs is None or len(registered) < len(known):
        return None
    gap = GAPS.plain(registered[0] if len(registered) == 1 else Trace())
    table = {
        "data": data["fingerprint"],
        "items": setup.data.fingerprint,
        "architecture": setup.architecture.plain(),
        "plan": {
            "batch": setup.plan.batch,
            "optimiser": OPTIMISERS.plain(setup.plan.optimiser),
            "precision": setup.plan.precision,
        },
        "period": setup.period,
        "probe_items": setup.probe_items,
        "gap": {name: value for name, value in gap.items() if name != "threshold"},
    }
    return Path(runs) / f"{SEARCH_PREFIX}{hash_of(table)}"


def _is_registered(gap: Gap | GapFunction) -> TypeGuard[Gap]:
    return type(gap) in GAPS.values()
