"""The strip at the top of the page: one bar of rate per latent, the largest first, with what it encodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from vaescope.markup import Markup
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.reporting.assets import render
from vaescope.reporting.latent_table import LatentRow, in_display_order, kl_words
from vaescope.reporting.style import TYPE_STYLES, plural

MAX_BARS = 128
MAX_LABELLED = 24  # bars with the number and the meaning of the latent below


def latent_strip(rows: Sequence[LatentRow]) -> Markup:
    """One bar per latent, at most `MAX_BARS`; its height is the rate, its colour and pattern the type.

    The rate of an infinite divergence cannot be drawn: its bar has the full height.
    """
    ordered = in_display_order(rows)
    shown, rest = ordered[:MAX_BARS], ordered[MAX_BARS:]
    highest = max((row.kl for row in shown if math.isfinite(row.kl)), default=0.0) or 1.0
    counts = Counter(row.type for row in rows)
    return render(
        "strip.html",
        bars=[
            {
                "row": row,
                "height": f"{100 * min(row.kl / highest, 1.0):.1f}",
                "words": kl_words(row.kl),
                "title": f"{row.name}: {row.type}, {kl_words(row.kl)} nats",
            }
            for row in shown
        ],
        labelled=len(shown) <= MAX_LABELLED,
        with_factors=any(row.meaning for row in rows),
        types=[(kind, TYPE_STYLES[kind].sign, counts[kind]) for kind in VARIABLE_TYPES if counts[kind]],
        rest=f"{plural(len(rest), 'more latent')} with smaller rates" if rest else "",
    )
