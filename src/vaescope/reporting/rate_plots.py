"""The map of every latent's rate over training: when each came into use, and when it collapsed."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.reporting.downsample import downsample
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BELOW_NUMBERS, SCALE, colour_bar, plural, set_layout
from vaescope.runs.probes import History, LatentRates, latent_rates

MAX_PROBES, MAX_LATENTS = 200, 128  # columns and rows of the map
MAX_LISTED = 6  # latents in the sentence
SMALLEST_RATE = 0.01  # nats; smaller rates have the lightest colour
ROW, MIN_ROW, MAX_PANEL, MARGINS = 26, 6, 700, 130  # pixels
MAX_NAMED = 30  # rows with a number each
DECIMALS = 4


def rates_over_training_plot(history: History) -> Plot | None:
    """A map of the rate of each latent at each probe, the largest final rate at the top; None without probed rates."""
    found = latent_rates(history)
    if found is None:
        return None
    order = np.argsort(-found.rates[-1], kind="stable")[:MAX_LATENTS]
    kept = downsample(found.rates.sum(1), max_points=MAX_PROBES)
    rates, steps = found.rates[kept][:, order].T.round(DECIMALS), [found.steps[place] for place in kept]
    names = [f"latent {latent}" for latent in order]
    highest = max(float(rates.max()), 10 * SMALLEST_RATE)
    ticks = [10.0**power for power in range(-2, int(np.floor(np.log10(highest))) + 1)]
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(rates.clip(SMALLEST_RATE)).round(DECIMALS).tolist(),
            x=steps,
            y=names,
            customdata=rates.tolist(),
            zmin=np.log10(SMALLEST_RATE),
            zmax=np.log10(highest),
            colorscale=SCALE,
            colorbar={
                **colour_bar("rate (nats)"),
                "tickvals": np.log10(ticks).tolist(),
                "ticktext": [f"≤ {ticks[0]:g}", *(f"{tick:g}" for tick in ticks[1:])],
            },
            hovertemplate="%{y}, step %{x}: %{customdata:.3g} nats<extra></extra>",
        )
    )
    row = min(ROW, max(MIN_ROW, MAX_PANEL // len(order)))
    set_layout(figure, row * len(order) + MARGINS, l=10, t=76)
    # With a colour bar, plotly places the title as if the axis had no numbers.
    figure.update_xaxes(title_text="training step", title_standoff=BELOW_NUMBERS, showgrid=False)
    named = {} if len(order) <= MAX_NAMED else {"showticklabels": False, "title_text": "latents"}
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, dtick=1, **named)
    rows = [
        {"step": step, "latent": latent, "rate": round(float(rate), DECIMALS), "type": types[latent]}
        for step, types, line in zip(found.steps, found.types, found.rates, strict=True)
        for latent, rate in enumerate(line)
    ]
    return Plot("Rate of each latent over training", _sentence(found), figure, rows)


def _sentence(found: LatentRates) -> str:
    """Since when each latent has been in use, or passive, as far as that changed during training.

    A latent that was in use, passive, and in use again is near the threshold; it did not come into use.
    """
    alive: dict[int, int] = {}
    died: dict[int, int] = {}
    back: dict[int, int] = {}
    for latent in range(found.rates.shape[1]):
        states = [types[latent] == PASSIVE[0] for types in found.types]
        changes = [place for place in range(1, len(states)) if states[place] != states[place - 1]]
        if changes:
            group = died if states[-1] else alive if len(changes) == 1 else back
            group[latent] = found.steps[changes[-1]]
    sentences = []
    groups = ((alive, "came into use"), (died, "became passive"), (back, "became passive for a time"))
    for changed, what in groups:
        if changed:
            listed = ", ".join(f"{latent} (step {step})" for latent, step in list(changed.items())[:MAX_LISTED])
            more = f" and {len(changed) - MAX_LISTED} more" if len(changed) > MAX_LISTED else ""
            sentences.append(f"{plural(len(changed), 'latent')} {what} during training: {listed}{more}.")
    probes = f"{plural(len(found.steps), 'probe')} up to step {found.steps[-1]}"
    if not sentences:
        return f"Over {probes}, no latent came into use or became passive."
    return f"{' '.join(sentences)} Measured at {probes}."
