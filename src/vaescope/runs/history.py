"""The history of a run as a list that notebooks display."""

from __future__ import annotations

from vaescope.notebook import render_view
from vaescope.runs.rows import Row


class History(list[Row]):
    """One row for each logged step and split: `step`, `split`, `loss` and every term."""

    def _repr_html_(self) -> str | None:
        return render_view(self)
