"""How many latents of a run are of each type, over how many items this was counted, and when.

Nothing here loads torch: listings of thousands of runs count types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vaescope.checks import part_of
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs.record import RunRecord, Table

FINAL, PROBE, MEASUREMENT = "final", "probe", "measurement"
TYPES_ITEMS, TYPES_FROM = "types_items", "types_from"  # columns


@dataclass(frozen=True)
class FinalTypes:
    """The type of each latent at the end of training, and the number of items over which it was found."""

    types: tuple[str, ...]
    items: int


@dataclass(frozen=True)
class TypeCounts:
    """The number of latents of each type.

    Attributes:
        counts: The number of latents by type.
        items: The number of items over which types were counted.
        counted: 'final' (after training, as `diagnose` counts by default), 'probe' (during training, over a few items)
            or 'measurement' (a measurement that a sweep made later).
    """

    counts: dict[str, int]
    items: int
    counted: str

    @classmethod
    def of(cls, record: RunRecord, history: Sequence[Table]) -> TypeCounts | None:
        """The final count of a run, or its last probe; None for a run that has neither."""
        from vaescope.runs.probes import probes_of  # loads numpy, which help and completion do without

        known, items = record.provenance.latent_types, record.provenance.latent_types_items
        if known is not None and items is not None:
            return cls({kind: known.count(kind) for kind in VARIABLE_TYPES}, items, FINAL)
        probes = probes_of(history)
        if not probes:
            return None
        configuration = record.configuration
        items, held_out = configuration["data"]["items"], configuration["split"]["held_out"]
        counts = {kind: probes[-1][kind] for kind in VARIABLE_TYPES}
        return cls(counts, probe_items(items, held_out, configuration["plan"]["monitor_items"]), PROBE)

    def columns(self) -> Table:
        """The counts as columns of the table of runs, with the number of items and when they were counted."""
        return {**self.counts, TYPES_ITEMS: self.items, TYPES_FROM: self.counted}


def probe_items(items: int, held_out: float | int, most: int) -> int:
    """The number of items of a probe: held-out ones, or training items if none are held out."""
    return min(most, part_of(items, held_out) or items)


def with_measured(row: Table, measured: Table, items: object) -> Table:
    """The row of a run with its measurements over at most `items` items; a final count of types stays."""
    counted = {**measured}
    if row.get(TYPES_FROM) == FINAL:
        counted = {name: value for name, value in measured.items() if name not in VARIABLE_TYPES}
    elif all(kind in measured for kind in VARIABLE_TYPES):
        # If the conditions of measurements differ, they are one text.
        known = {TYPES_ITEMS: min(items, row["items"])} if isinstance(items, int) else {}
        counted |= {**known, TYPES_FROM: MEASUREMENT}
    return {**row, **counted}


def with_labelled_types(row: Table) -> Table:
    """The kept row of an earlier version, which has counts of probes without saying so."""
    needed = (*VARIABLE_TYPES, "items", "held_out", "monitor_items")
    if TYPES_FROM in row or not all(name in row for name in needed):
        return row
    items = probe_items(row["items"], row["held_out"], row["monitor_items"])
    return {**row, TYPES_ITEMS: items, TYPES_FROM: PROBE}
