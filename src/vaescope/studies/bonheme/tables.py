"""How many latents FONDUE finds by data set, gap, objective, start and net (Bonheme, tables 8.1 to 8.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vaescope.studies.bonheme import chapter8_claims as claims
from vaescope.studies.bonheme.search import (
    CELEBA,
    DIMENSION,
    DSPRITES,
    INFORMATION,
    LATENTS,
    METHODS,
    SPREAD,
    SYMSOL,
    TRACE,
    Found,
    SearchQuestion,
    asked,
    objectives_of,
    subjects,
)
from vaescope.studies.charts import Lines
from vaescope.studies.claims import StudyClaim
from vaescope.studies.context import StudyContext
from vaescope.studies.study import Cell, Findings, Shared, Study, cell_rows

SETS = (SYMSOL, DSPRITES, CELEBA)
FEW = (SYMSOL, DSPRITES)  # at quick scale, where stand-ins that train faster are searched
BY_INFORMATION = (TRACE, INFORMATION, SPREAD)
STARTS = (5, 19, 22, 39, 74, 94, 116, 145, 180, 182)
QUICK_STARTS = (1, 3, 6, 8)
BETAS, LAMBDAS = (0.5, 1, 2, 4), (0.5, 1, 2, 4)
ALL = "all"

FONDUE = Shared(
    "Tables of FONDUE",
    "An answer counts when two successive epochs give it, for each seed on its own; the thesis raises the epochs until "
    "the predicted number stops changing, and does not say whether of each seed or of their mean. Sizes are asked for "
    "several at once, which gives the answer of Algorithm 1 wherever the gap crosses the threshold once. 'models' are "
    "those that the published algorithm would train one after another on its way to that answer, 'epochs' do not count "
    "the one that confirms it. 'simulated minutes' are no time of a search but a product: models x epochs x the time "
    "of a step while all searches trained together; the thesis gives minutes of one search on an A100. On a GPU models "
    "train in bfloat16. The net has kernels 4, 4, 2, 2 and Glorot weights as in the thesis' code, where its table D.2 "
    "says 4 x 4 throughout.",
)
BLOCKS = Shared(
    "Blocks of FONDUE_IB",
    "FONDUE_IB truncates both of its terms to two decimals in blocks of 999 items. In the thesis' code, though not in "
    "its text, the items are sorted by their pixels first, so that those of a block are similar, their codes have less "
    "entropy, and more latents are asked for; 'FONDUE_IB, spread' takes blocks of 1,000 that are like the whole data.",
)

Rows = Sequence[tuple[Mapping[str, object], SearchQuestion]]


def _table(
    context: StudyContext,
    rows: Rows,
    title: str,
    sentence: str,
    x: str,
    *,
    names: Sequence[str] = SETS,
    connected: bool = False,
    closing: Callable[[str, Sequence[Found]], list[Cell]] | None = None,
) -> Findings:
    """The cells of a table whose rows are questions, and a chart of the numbers of latents against the column `x`."""
    questions = [question for _, question in rows]
    searches = [
        (subject, asked(context, subject, questions, connected=connected)) for subject in subjects(context, names)
    ]
    cells: list[Cell] = []
    for subject, search in searches:
        found = search.found()
        for of, question in rows:
            one = found[question]
            cells += one.cells({**of, "data": subject.label}, one.models())
        if closing is not None:
            cells += closing(subject.label, [found[question] for _, question in rows])
        unsure = [answer.seed for one in found.values() for answer in one.answers if not answer.stable]
        if unsure:
            context.note(f"{subject.label}: {len(unsure)} answers still moved when training ended.")
    return Findings(tuple(cells), (_chart(cells, title, sentence, x),) if cells else ())


def _chart(cells: Sequence[Cell], title: str, sentence: str, x: str) -> Lines:
    rows = cell_rows((cell for cell in cells if cell.of["measure"] == LATENTS and cell.of[x] != ALL), LATENTS)
    kind = "bars" if any(isinstance(row[x], str) for row in rows) else "lines"
    return Lines(title, sentence, rows, x, LATENTS, by="data", kind=kind, x_title=x, y_title="latents found")


def _by_gap(gaps: Sequence[str]) -> Rows:
    return [({"method": METHODS[gap]}, SearchQuestion(gap)) for gap in gaps]


def table_8_1(context: StudyContext) -> Findings:
    """FONDUE and FONDUE_IB by data set (table 8.1)."""
    sentence = "FONDUE's number of latents and that of the information bottleneck's criterion."
    names = context.pick(FEW, SETS)
    return _table(context, _by_gap(BY_INFORMATION), "Latents by two criteria", sentence, "method", names=names)


def table_8_2(context: StudyContext) -> Findings:
    """FONDUE for other betas (table 8.2)."""
    rows = [
        ({"beta": beta}, SearchQuestion(objective=one)) for beta, one in objectives_of("beta", "beta", BETAS).items()
    ]
    sentence = "Source: a higher beta prunes harder: fewer latents stay in use."
    return _table(context, rows, "Latents against beta", sentence, "beta", names=context.pick((DSPRITES,), SETS))


def table_8_3(context: StudyContext) -> Findings:
    """FONDUE for DIP-VAE II (table 8.3)."""
    objectives = objectives_of("dip_ii", "lambda_off_diagonal", context.pick((0.5, 4), LAMBDAS))
    rows = [({"lambda_od": strength}, SearchQuestion(objective=one)) for strength, one in objectives.items()]
    sentence = "Source: the number of latents of DIP-VAE II falls as its penalty grows."
    names = context.pick((DSPRITES,), SETS)
    return _table(context, rows, "Latents against the strength of DIP-VAE II", sentence, "lambda_od", names=names)


def table_of_starts(name: str, context: StudyContext) -> Findings:
    """FONDUE from other initial numbers of latents (tables 8.4 to 8.6)."""
    rows = [({"start": start}, SearchQuestion(start=start)) for start in context.pick(QUICK_STARTS, STARTS)]
    sentence = "Source: the answer does not depend on where the search begins; the number of models does."

    def closing(label: str, found: Sequence[Found]) -> list[Cell]:
        together = replace(found[0], answers=tuple(answer for one in found for answer in one.answers))
        return together.cells({"start": ALL, "data": label}, [count for one in found for count in one.models()])

    return _table(context, rows, "Latents against the start", sentence, "start", names=(name,), closing=closing)


def table_8_7(context: StudyContext) -> Findings:
    """FONDUE and FONDUE_IB with fully connected nets (table 8.7)."""
    sentence = "Source: FONDUE finds the elbow of these nets too; FONDUE_IB asks for far more latents on dSprites."
    rows, names = _by_gap(BY_INFORMATION), context.pick((DSPRITES,), SETS)
    return _table(context, rows, "Latents of fully connected nets", sentence, "method", names=names, connected=True)


def table_8_8(context: StudyContext) -> Findings:
    """FONDUE and FONDUE_IDE (table 8.8)."""
    sentence = (
        "Source: both gaps find about as many latents on dSprites and Celeba; that between dimensions fewer on Symsol."
    )
    names = context.pick(FEW, SETS)
    return _table(context, _by_gap((TRACE, DIMENSION)), "Latents by dimension", sentence, "method", names=names)


def _starts(name: str, number: int, stated: tuple[StudyClaim, ...]) -> Study:
    return Study(
        f"bonheme-table8.{number}",
        f"Bonheme, Table 8.{number}",
        f"Does FONDUE's answer on {name} depend on the number of latents from which the search begins?",
        "All starts of one seed read the same models, where the thesis trains anew for each: its rows differ by "
        "chance, ours only where a gap crosses the threshold twice. No more than 200 latents are tried.",
        partial(table_of_starts, name),
        claims=stated,
        shared=(FONDUE,),
    )


STUDIES = (
    Study(
        "bonheme-table8.1",
        "Bonheme, Table 8.1",
        "How many latents do FONDUE and FONDUE_IB find for each data set?",
        "The row 'FONDUE_IB, spread' is ours.",
        table_8_1,
        claims=claims.TABLE_8_1,
        shared=(FONDUE, BLOCKS),
    ),
    Study(
        "bonheme-table8.2",
        "Bonheme, Table 8.2",
        "How does the number of latents that FONDUE finds change with beta?",
        "beta = 1, not in the thesis' table, is that of Table 8.1.",
        table_8_2,
        claims=claims.TABLE_8_2,
        shared=(FONDUE,),
    ),
    Study(
        "bonheme-table8.3",
        "Bonheme, Table 8.3",
        "How many latents does FONDUE find for DIP-VAE II of several strengths?",
        "lambda_d is equal to lambda_od, as for DIP-VAE II in disentanglement_lib; the thesis names only the latter "
        "here.",
        table_8_3,
        claims=claims.TABLE_8_3,
        shared=(FONDUE,),
    ),
    _starts(SYMSOL, 4, claims.TABLE_8_4),
    _starts(CELEBA, 5, claims.TABLE_8_5),
    _starts(DSPRITES, 6, claims.TABLE_8_6),
    Study(
        "bonheme-table8.7",
        "Bonheme, Table 8.7",
        "How many latents do FONDUE and FONDUE_IB find for fully connected VAEs?",
        "The decoder has three layers of 1,200 as in the code, where table D.3 opens with 256.",
        table_8_7,
        claims=claims.TABLE_8_7,
        shared=(FONDUE, BLOCKS),
    ),
    Study(
        "bonheme-table8.8",
        "Bonheme, Table 8.8",
        "Does the gap between the intrinsic dimensions of sampled and mean codes find the same number of latents?",
        "Dimensions are maximum likelihood estimates with k = 20 and the averaging of the thesis' code.",
        table_8_8,
        claims=claims.TABLE_8_8,
        shared=(FONDUE,),
    ),
)
