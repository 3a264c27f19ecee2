"""What the latents of one model look like: their values by type, what they share, what they carry, and the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from vaescope.codes import Representation
from vaescope.diagnosis.compare import LAYER_ITEMS
from vaescope.encoding import layer_similarity
from vaescope.metrics import Score
from vaescope.metrics.meaning import Meaning
from vaescope.numerics import information, linalg
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime import VariableTypes
from vaescope.reporting.heatmaps import heatmap, meaning_heatmap
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import TYPE_STYLES, set_layout, type_label
from vaescope.similarity import SimilarityMap

BINS = 40
PANEL, AROUND = 170, 96  # pixels
APART = 32  # latents up to which each has bars of its own
PALER = (1.0, 0.6)
DECIMALS = 4
LATENT = "latent"
VALUES = {"mean": "mean of the posterior", "variance": "variance of the posterior"}


def histograms_plot(codes: Representation, types: VariableTypes) -> Plot:
    """Means and variances of the codes, a row of two panels for each type that occurs (Clapham, figures 6 to 9).

    The latents of a type are stacked, or counted together where the model has many. All panels of a column have the
    same bins.
    """
    from plotly.graph_objects import Bar
    from plotly.subplots import make_subplots

    groups = _groups(types)
    present = list(dict.fromkeys(kind for kind, _ in groups))
    titles = [f"{type_label(kind)}: {name}s" for kind in present for name in VALUES]
    figure = make_subplots(
        rows=len(present), cols=2, shared_xaxes="columns", subplot_titles=titles, vertical_spacing=0.2 / len(present)
    )
    set_layout(figure, len(present) * PANEL + AROUND, t=36)
    figure.update_layout(barmode="stack", bargap=0)
    figure.update_annotations(font_size=14)
    rows: list[dict[str, Any]] = []
    for column, (name, title) in enumerate(VALUES.items(), 1):
        table = getattr(codes, name).double().cpu().numpy()
        edges = _edges(table, name)
        middles, width = ((edges[:-1] + edges[1:]) / 2).round(6).tolist(), float(edges[1] - edges[0])
        for place, (kind, latents) in enumerate(groups):
            counts = np.histogram(table[:, latents], edges)[0].tolist()
            words = f"latent {latents[0]}" if len(latents) == 1 else f"{len(latents)} latents"
            bars = Bar(
                x=middles,
                y=counts,
                width=width,
                name=f"{words}, {kind}",
                # Every other latent is paler, so that those next to each other can be told apart.
                marker={"color": TYPE_STYLES[kind].colour, "opacity": PALER[place % 2], "line": {"width": 0}},
                hovertemplate=f"{words}, {kind}<br>%{{y}} codes with a {name} about %{{x:.3g}}<extra></extra>",
            )
            figure.add_trace(bars, row=present.index(kind) + 1, col=column)
            who = {"type": kind, "latents": " ".join(map(str, latents)), "of": name}
            ends = zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
            rows += [{**who, "from": low, "to": high, "codes": count} for low, high, count in ends]
        figure.update_xaxes(title_text=title.replace(" of", "<br>of"), row=len(present), col=column)
        figure.update_xaxes(range=[edges[0], edges[-1]], nticks=5, col=column)
    figure.update_yaxes(title_text="codes", col=1)
    figure.update_yaxes(nticks=4)
    return Plot("Codes by type", _spread(codes, types), figure, rows)


def correlation_plot(codes: Representation, types: VariableTypes) -> Plot | None:
    """|Pearson correlation| of the mean representation, latents in the order of their types; None for one latent."""
    if codes.latents < 2:
        return None
    found = linalg.correlation(linalg.covariance(codes.mean).cpu())
    order = sorted(range(codes.latents), key=lambda latent: VARIABLE_TYPES.index(types.types[latent]))
    matrix = found.matrix.abs().numpy()[np.ix_(order, order)]
    names = [f"{latent} {TYPE_STYLES[types.types[latent]].sign}" for latent in order]
    figure = heatmap(matrix, names, names, of="|correlation|", axes=("latent and type", "latent and type"))
    if figure.layout.xaxis.ticktext:
        # Beside each other, numbers and signs would run together on a telephone.
        figure.update_xaxes(ticktext=[name.replace(" ", "<br>") for name in names])
    one, other, most = _strongest(matrix, order)
    signs = ", ".join(type_label(kind) for kind in VARIABLE_TYPES if kind in types.types)
    still = _latents(found.constant)
    sentence = f"The means of latents {one} and {other} correlate most, by {most:.2f} ({signs})." + (
        f" Shown as 0, for their means do not vary: {still}." if still else ""
    )
    return Plot("Correlation of latents", sentence, figure, _cells(matrix, order, "correlation"))


def information_plot(codes: Representation) -> Plot | None:
    """Mutual information of each pair of latents of the mean representation, from histograms; None for one latent."""
    if codes.latents < 2:
        return None
    binned = information.discretise(codes.mean)
    matrix = information.mutual_information_matrix(binned).cpu().numpy()
    # What a latent shares with itself, its entropy, would outshine all pairs.
    np.fill_diagonal(matrix, np.nan)
    places = list(range(codes.latents))
    names = [str(latent) for latent in places]
    figure = heatmap(matrix, names, names, of="mutual information (nats)", largest=None, axes=(LATENT, LATENT))
    one, other, most = _strongest(matrix, places)
    mean = float(np.nanmean(matrix))
    chance = (information.BINS - 1) ** 2 / (2 * len(codes))
    sentence = (
        f"The means of latents {one} and {other} share most, {most:.3g} nats, and pairs {mean:.3g} nats on average; "
        f"independent latents that fill all bins would seem to share about {chance:.2g}."
    )
    return Plot("Information shared by latents", sentence, figure, _cells(matrix, places, "nats"))


def factor_plot(found: Meaning) -> Plot:
    """Bits that each latent carries of each factor."""
    figure = meaning_heatmap(found)
    figure.update_xaxes(title_text="factor")
    summary = found.summary()
    rows = [
        {"latent": latent, "factor": factor, "bits": float(found.bits[i, j]), "beyond_chance": bool(beyond)}
        for (i, latent), (j, factor), beyond in _paired(found.latents, found.factors, found.beyond_chance)
    ]
    return Plot("What latents carry", f"{summary[:1].upper()}{summary[1:]}.", figure, rows)


def importance_plot(score: Score) -> Plot | None:
    """How much each latent matters to the prediction of each factor; None for all scores but DCI, which has it."""
    if score.metric != "dci" or score.matrix is None:
        return None
    names = [f"latent {latent}" for latent in score.latents]
    figure = heatmap(score.matrix, names, score.factors, of="importance", axes=("factor", ""))
    rows = [
        {"latent": latent, "factor": factor, "importance": float(value)}
        for (_, latent), (_, factor), value in _paired(score.latents, score.factors, score.matrix)
    ]
    return Plot(
        "Importance of latents",
        f"The share of each factor's prediction that rests on each latent; {score.summary()}.",
        figure,
        rows,
    )


def layers_plot(model: Any, data: Any, *, items: int = LAYER_ITEMS, seed: int = 0) -> Plot:
    """How alike (CKA) what each two layers of one model make of at most `items` items is."""
    found = layer_similarity(model, data=data, items=items, seed=seed)
    figure = heatmap(found.matrix, found.rows, found.columns, of="CKA", axes=("layer", "layer"))
    return Plot("Similarity of layers", _layers(found), figure, found.table())


def _groups(types: VariableTypes) -> list[tuple[str, list[int]]]:
    """Each latent with its type, by type; the latents of a type together where there are many."""
    own = {kind: [latent for latent, found in enumerate(types.types) if found == kind] for kind in VARIABLE_TYPES}
    if len(types.types) > APART:
        return [(kind, latents) for kind, latents in own.items() if latents]
    return [(kind, [latent]) for kind, latents in own.items() for latent in latents]


def _edges(table: Float[np.ndarray, "items latents"], name: str) -> Float[np.ndarray, "edges"]:
    """Bins from the least to the greatest value; those of variances hold 0 and 1, where the types are."""
    low, high = float(table.min()), float(table.max())
    if name == "variance":
        low, high = 0.0, max(high, 1.0)
    return np.histogram_bin_edges(np.array([low, high]), BINS)


def _spread(codes: Representation, types: VariableTypes) -> str:
    """How far the codes of each type spread, and about which variance they lie."""
    parts = []
    for kind in VARIABLE_TYPES:
        latents = [latent for latent, found in enumerate(types.types) if found == kind]
        if latents:
            deviation = float(codes.mean[:, latents].double().std(0, correction=0).mean())
            variance = float(codes.variance[:, latents].double().mean())
            word = "latent" if len(latents) == 1 else "latents"
            parts.append(f"{len(latents)} {kind} {word}: means spread by {deviation:.2g}, variance {variance:.2g}")
    return f"Of {len(codes)} codes, on average, {'; '.join(parts)}."


def _layers(found: SimilarityMap) -> str:
    """Which two layers are most and least alike; one that does not vary is like none."""
    apart = np.where(np.eye(len(found.rows), dtype=bool), np.nan, found.matrix)
    still = f"; without variation: {', '.join(found.constant)}" if found.constant else ""
    if np.isnan(apart).all():
        return f"No two of {len(found.rows)} layers can be compared{still}."
    ends = [np.unravel_index(int(place), apart.shape) for place in (np.nanargmax(apart), np.nanargmin(apart))]
    (one, other), (this, that) = [sorted(int(axis) for axis in end) for end in ends]
    return (
        f"Of {len(found.rows)} layers, {found.rows[one]} and {found.rows[other]} are most alike (CKA "
        f"{apart[one, other]:.3f}), {found.rows[this]} and {found.rows[that]} least ({apart[this, that]:.3f}){still}."
    )


def _latents(numbers: Sequence[int]) -> str:
    word = "latent" if len(numbers) == 1 else "latents"
    return f"{word} {', '.join(map(str, numbers))}" if numbers else ""


def _strongest(matrix: Float[np.ndarray, "latents latents"], order: Sequence[int]) -> tuple[int, int, float]:
    """The two latents of the largest entry off the diagonal, the smaller number first."""
    apart = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
    place = np.unravel_index(int(apart.argmax()), apart.shape)
    one, other = sorted(order[int(axis)] for axis in place)
    return one, other, float(apart[place])


def _cells(matrix: Float[np.ndarray, "latents latents"], order: Sequence[int], of: str) -> list[dict[str, Any]]:
    """One row for each pair of different latents."""
    return [
        {"latent": order[i], "other": order[j], of: round(float(matrix[i, j]), DECIMALS)}
        for i in range(len(order))
        for j in range(i)
    ]


def _paired(rows: Sequence[Any], columns: Sequence[Any], matrix: np.ndarray) -> Any:
    """Place and name of the row, place and name of the column, and what stands there."""
    return (((i, row), (j, column), matrix[i, j]) for i, row in enumerate(rows) for j, column in enumerate(columns))
