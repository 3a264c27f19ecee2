"""Plots of the latents of one model: their values by type, their dependence, and what they encode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from plotly.subplots import make_subplots

from vaescope.codes import Representation
from vaescope.metrics import Meaning, Score
from vaescope.numerics import information, linalg
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime import VariableTypes
from vaescope.reporting.heatmaps import heatmap
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import TYPE_STYLES, plural, set_layout, type_label

BINS = 40
PANEL, MARGINS = 170, 96  # pixels
MAX_SEPARATE = 32  # maximum number of latents with separate bars
OPACITIES = (1.0, 0.6)
DECIMALS = 4
LATENT = "latent"
AXIS_TITLES = {"mean": "posterior mean", "variance": "posterior variance"}


def histograms_plot(codes: Representation, types: VariableTypes) -> Plot:
    """Histograms of means and variances, one row of two panels per type (Clapham, figures 6 to 9).

    The latents of a type are stacked, or counted together if the model has many. All panels of a column have the same
    bins.
    """
    members = _members(types)
    present = list(members)
    if len(types.types) > MAX_SEPARATE:
        groups = list(members.items())
    else:
        groups = [(kind, [latent]) for kind, latents in members.items() for latent in latents]
    titles = [f"{type_label(kind)}: {name}s" for kind in present for name in AXIS_TITLES]
    figure = make_subplots(
        rows=len(present), cols=2, shared_xaxes="columns", subplot_titles=titles, vertical_spacing=0.2 / len(present)
    )
    set_layout(figure, len(present) * PANEL + MARGINS, t=36)
    figure.update_layout(barmode="stack", bargap=0)
    figure.update_annotations(font_size=14)
    rows: list[dict[str, object]] = []
    tables = {"mean": codes.mean, "variance": codes.variance}
    for column, (name, title) in enumerate(AXIS_TITLES.items(), 1):
        table = tables[name].double().cpu().numpy()
        low, high = float(table.min()), float(table.max())
        if name == "variance":  # 0 and 1 define the types
            low, high = 0.0, max(high, 1.0)
        edges = np.histogram_bin_edges(np.array([low, high]), BINS)
        centres, width = ((edges[:-1] + edges[1:]) / 2).round(6).tolist(), float(edges[1] - edges[0])
        for place, (kind, latents) in enumerate(groups):
            counts = np.histogram(table[:, latents], edges)[0].tolist()
            words = f"{_names(latents)}, {kind}" if len(latents) == 1 else f"{len(latents)} latents, {kind}"
            bars = go.Bar(
                x=centres,
                y=counts,
                width=width,
                name=words,
                # Alternating opacities separate neighbouring latents.
                marker={"color": TYPE_STYLES[kind].colour, "opacity": OPACITIES[place % 2], "line": {"width": 0}},
                hovertemplate=f"{words}<br>%{{y}} codes with a {name} near %{{x:.3g}}<extra></extra>",
            )
            figure.add_trace(bars, row=present.index(kind) + 1, col=column)
            group = {"type": kind, "latents": " ".join(map(str, latents)), "of": name}
            bins = zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
            rows += [{**group, "from": low, "to": high, "codes": count} for low, high, count in bins]
        figure.update_xaxes(title_text=title, row=len(present), col=column)
        figure.update_xaxes(range=[edges[0], edges[-1]], nticks=5, col=column)
    figure.update_yaxes(title_text="codes", col=1)
    figure.update_yaxes(nticks=4)
    return Plot("Codes by type", _spread(codes, types), figure, rows)


def correlation_plot(codes: Representation, types: VariableTypes) -> Plot | None:
    """|Pearson correlation| of the means, with the latents sorted by type; None for a single latent."""
    if codes.latents < 2:
        return None
    found = linalg.correlation(linalg.covariance(codes.mean).cpu())
    order = sorted(range(codes.latents), key=lambda latent: VARIABLE_TYPES.index(types.types[latent]))
    matrix = found.matrix.abs().numpy()[np.ix_(order, order)]
    names = [f"{latent} {TYPE_STYLES[types.types[latent]].sign}" for latent in order]
    figure = heatmap(matrix, names, names, of="|correlation|", axes=("latent and type", "latent and type"))
    if figure.layout.xaxis.ticktext:
        # On a phone, numbers and signs in one line would overlap.
        figure.update_xaxes(ticktext=[name.replace(" ", "<br>") for name in names])
    one, other, most = _strongest(matrix, order)
    signs = ", ".join(type_label(kind) for kind in VARIABLE_TYPES if kind in types.types)
    sentence = f"The strongest correlation is {most:.2f}, between the means of latents {one} and {other} ({signs})."
    if found.constant:
        sentence += f" Shown as 0 because the means are constant: {_names(found.constant)}."
    return Plot("Correlation of latents", sentence, figure, _pair_rows(matrix, order, "correlation"))


def information_plot(codes: Representation) -> Plot | None:
    """Mutual information of each pair of latents, from histograms of the means; None for a single latent."""
    if codes.latents < 2:
        return None
    matrix = information.mutual_information_matrix(information.discretise(codes.mean)).cpu().numpy()
    # The entropies on the diagonal are much larger than all pairs.
    np.fill_diagonal(matrix, np.nan)
    latents = list(range(codes.latents))
    names = [str(latent) for latent in latents]
    figure = heatmap(matrix, names, names, of="mutual information (nats)", largest=None, axes=(LATENT, LATENT))
    one, other, most = _strongest(matrix, latents)
    chance = (information.BINS - 1) ** 2 / (2 * len(codes))
    sentence = (
        f"Latents {one} and {other} share the most information, {most:.3g} nats; the average over pairs is "
        f"{float(np.nanmean(matrix)):.3g} nats. Independent latents can appear to share up to about {chance:.2g} nats."
    )
    return Plot("Information shared by latents", sentence, figure, _pair_rows(matrix, latents, "nats"))


def factor_plot(found: Meaning) -> Plot:
    """How many bits each latent carries about each factor."""
    summary = found.summary()
    title, sentence = "What latents encode", f"{summary[:1].upper()}{summary[1:]}."
    columns = {"bits": found.bits, "beyond_chance": found.beyond_chance, "encodes": found.encodes}
    return _factor_heatmap(title, sentence, found.latents, found.factors, columns, largest=None)


def importance_plot(score: Score) -> Plot | None:
    """How much each latent contributes to the prediction of each factor; None for metrics other than DCI."""
    if score.metric != "dci" or score.matrix is None:
        return None
    sentence = f"The importance of each latent for the prediction of each factor; {score.summary()}."
    columns = {"importance": score.matrix}
    return _factor_heatmap("Importance of latents", sentence, score.latents, score.factors, columns, largest=1.0)


def _factor_heatmap(
    title: str,
    sentence: str,
    latents: Sequence[int],
    factors: Sequence[str],
    columns: Mapping[str, np.ndarray],
    largest: float | None,
) -> Plot:
    """The first of the columns as a heatmap, latents x factors, and all of them as rows."""
    of, matrix = next(iter(columns.items()))
    names = [f"latent {latent}" for latent in latents]
    rows = [
        {"latent": latent, "factor": factor, **{name: values[i, j].item() for name, values in columns.items()}}
        for i, latent in enumerate(latents)
        for j, factor in enumerate(factors)
    ]
    return Plot(title, sentence, heatmap(matrix, names, factors, of=of, largest=largest), rows)


def _members(types: VariableTypes) -> dict[str, list[int]]:
    """The types that occur, each with its latents."""
    members = {kind: [latent for latent, found in enumerate(types.types) if found == kind] for kind in VARIABLE_TYPES}
    return {kind: latents for kind, latents in members.items() if latents}


def _spread(codes: Representation, types: VariableTypes) -> str:
    """The average spread of the means and the average variance of each type."""
    parts = []
    for kind, latents in _members(types).items():
        deviation = float(codes.mean[:, latents].double().std(0, correction=0).mean())
        variance = float(codes.variance[:, latents].double().mean())
        count = plural(len(latents), f"{kind} latent")
        parts.append(f"{count}: standard deviation of the means {deviation:.2g}, variance {variance:.2g}")
    return f"Averages over {len(codes):,} codes. {'; '.join(parts)}."


def _names(latents: Sequence[int]) -> str:
    return f"{'latent' if len(latents) == 1 else 'latents'} {', '.join(map(str, latents))}"


def _strongest(matrix: Float[np.ndarray, "latents latents"], order: Sequence[int]) -> tuple[int, int, float]:
    """The two latents of the largest entry off the diagonal, the smaller number first."""
    pairs = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
    place = np.unravel_index(int(pairs.argmax()), pairs.shape)
    one, other = sorted(order[int(axis)] for axis in place)
    return one, other, float(pairs[place])


def _pair_rows(matrix: Float[np.ndarray, "latents latents"], order: Sequence[int], of: str) -> list[dict[str, object]]:
    """One row per pair of latents."""
    return [
        {"latent": order[i], "other": order[j], of: round(float(matrix[i, j]), DECIMALS)}
        for i in range(len(order))
        for j in range(i)
    ]
