"""Figures 3, 4, 6 and 7 of Pastrana: the negative ELBO and the KL's share in it, by latents, weight and labels."""

from __future__ import annotations

from collections.abc import Mapping

from vaescope.studies.context import StudyContext, Values
from vaescope.studies.pastrana.runs import (
    BETAS,
    CHOSEN,
    CONDITIONAL,
    LOSS,
    PLAIN,
    QUICK_CHOSEN,
    Subject,
    asked_histories,
    curves,
    end_cells,
    of_images,
)
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

RISE = "negative ELBO above beta 1 (%)"
BELOW = "negative ELBO below the unconditional (%)"
COMPARED = (1, 10)


@of_images
def figure3(context: StudyContext, found: Subject) -> Findings:
    """Figure 3: the standard VAE with 3 to 200 latents."""
    groups = asked_histories(context, found.by_size(context))
    cells = [cell for size, runs in groups.items() for cell in end_cells({"data": found.label, "J": size}, runs)]
    sentences = (
        "Source: beyond ten latents the bound hardly improves, and no size overfits.",
        "Source: more latents make the KL a larger part of the bound.",
    )
    charts = curves({f"J = {size}": runs for size, runs in groups.items()}, "Standard VAE", sentences)
    return Findings(tuple(cells), charts)


@of_images
def figure4(context: StudyContext, found: Subject) -> Findings:
    """Figure 4: the beta-VAE with 10 latents at five weights of the KL."""
    groups = asked_histories(context, found.by_beta(context, PLAIN))
    cells = [cell for beta, runs in groups.items() for cell in end_cells(_at(found, beta), runs)]
    cells += [
        Cell.over({**_at(found, beta), "measure": RISE}, _percent(groups[beta], groups[1])) for beta in BETAS[PLAIN][1:]
    ]
    sentences = (
        "Source: a larger weight of the KL makes the negative ELBO larger.",
        "Source: the share of the KL is lower with the weight 10 than with 3 and 5.",
    )
    charts = curves({f"beta = {found.weight(beta)}": runs for beta, runs in groups.items()}, PLAIN, sentences)
    return Findings(tuple(cells), charts)


@of_images
def figure6(context: StudyContext, found: Subject) -> Findings:
    """Figure 6: the conditional beta-VAE with 10 latents at four weights, and the same without labels."""
    groups, others = (asked_histories(context, found.by_beta(context, model)) for model in (CONDITIONAL, PLAIN))
    cells = [cell for beta, runs in groups.items() for cell in end_cells(_at(found, beta), runs)]
    for beta, runs in groups.items():
        below = [-change for change in _percent(runs, others[beta])]
        cells.append(Cell.over({**_at(found, beta), "measure": BELOW}, below))
    sentences = (
        "Source: with labels the negative ELBO is lower at every weight.",
        "Source: the share of the KL grows from weight 1 to 5 and declines sharply at 10, where it is lowest.",
    )
    charts = curves({f"beta = {found.weight(beta)}": runs for beta, runs in groups.items()}, CONDITIONAL, sentences)
    return Findings(tuple(cells), charts)


@of_images
def figure7(context: StudyContext, found: Subject) -> Findings:
    """Figure 7: with and without labels at the weights 1 and 10."""
    models = {model: asked_histories(context, found.by_beta(context, model)) for model in (PLAIN, CONDITIONAL)}
    cells = [
        cell
        for model, groups in models.items()
        for beta in COMPARED
        for cell in end_cells({**_at(found, beta), "model": model}, groups[beta])
    ]
    sentences = (
        "Source: the bound is best with labels and weight 1, and worst without labels and weight 10.",
        "Source: at weight 10 labels take the share of the KL from 20% down to almost 10%.",
    )
    named: Mapping[str, Values] = {
        f"{model}, beta = {found.weight(beta)}": groups[beta] for model, groups in models.items() for beta in COMPARED
    }
    return Findings(tuple(cells), curves(named, "With and without labels", sentences))


def _at(found: Subject, beta: int) -> JsonTable:
    return {"data": found.label, "beta": found.weight(beta)}


def _percent(values: Values, others: Values) -> list[float]:
    """By how much the negative ELBO of each run is above that of the other with its seed."""
    pairs = zip(values, others, strict=True)
    return [100 * (one["test"][-1][LOSS] / other["test"][-1][LOSS] - 1) for one, other in pairs]


STUDIES = (
    Study(
        "pastrana-figure3",
        "Pastrana, Figure 3",
        "How do the ELBO of a standard VAE, and the KL's share in it, change with the number of latents?",
        f"{CHOSEN} The curves are printed as pictures; the text gives two shares. {QUICK_CHOSEN}",
        figure3,
    ),
    Study(
        "pastrana-figure4",
        "Pastrana, Figure 4",
        "How do the ELBO of a beta-VAE, and the KL's share in it, change with beta?",
        f"{CHOSEN} The text says that the share shrinks with beta but for 10, the caption that at 10 it is below that "
        f"at 3 and 5. {QUICK_CHOSEN}",
        figure4,
    ),
    Study(
        "pastrana-figure6",
        "Pastrana, Figure 6",
        "What do labels change in the ELBO of a beta-VAE, and in the KL's share?",
        f"{CHOSEN} The text has 15% less at every beta, and its own example at beta = 5 (160 and 140) is 12.5%. "
        f"Section 2.2 speaks of a prior given the label; the author's code, as ours, keeps N(0, I). {QUICK_CHOSEN}",
        figure6,
    ),
    Study(
        "pastrana-figure7",
        "Pastrana, Figure 7",
        "How do VAE, beta-VAE and their conditional kin compare in the ELBO and the KL's share?",
        f"{CHOSEN} {QUICK_CHOSEN}",
        figure7,
    ),
)
