"""What Pastrana trains: VAE, beta-VAE and conditional beta-VAE of MNIST (section 3), and the curves of their terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from statistics import fmean

from vaescope.data import Dataset
from vaescope.objectives import strengths
from vaescope.runs import MeasurementSpec, Run
from vaescope.studies.charts import Lines
from vaescope.studies.context import Measurement, StudyContext, StudyRun, Values
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings
from vaescope.sweeps import Sweep

PLAIN, CONDITIONAL = "beta-VAE", "conditional beta-VAE"
BETAS = {PLAIN: (1, 3, 5, 10, 20), CONDITIONAL: (1, 3, 5, 10)}
SIZES = (3, 5, 10, 20), (3, 5, 10, 20, 200)
LATENTS = 10
SEEDS = 2, 3
LOSS, SHARE = "negative ELBO", "KL share (%)"
SPLITS = ("train", "test")
CHOSEN = (
    "How many runs there are and which split the numbers are of is not said: ours are 3 seeds at paper scale, on "
    "held-out images. All 70,000 images are split at random into 60,000 and 10,000, where the author's code has the "
    "published split. As the author's code logs it, the negative ELBO is BCE + beta KL, and the share of the KL has "
    "beta in it too; pixels are not binarised. TF32 on a GPU."
)
QUICK_CHOSEN = (
    "Quick has small digits, 32 hidden units for 500, 400 steps of Adam, at most 20 latents and a tenth of each beta, "
    "picked by trial until the published behaviour showed: agreement at quick scale is no replication."
)


@dataclass(frozen=True)
class Subject:
    """The images and how models of them are trained; `unit` is what the paper's betas are multiplied by."""

    label: str
    source: str | JsonTable
    rate: float
    unit: float
    settings: Mapping[str, object] = field(repr=False)

    def runs(
        self, context: StudyContext, model: str, betas: Sequence[int], sizes: Sequence[int] = (LATENTS,)
    ) -> list[StudyRun]:
        """The runs of a model for every weight and size, one for each seed, which varies fastest."""
        grid: dict[str, Sequence[object]] = {
            "objective.beta": [self.unit * beta for beta in betas],
            "latents": list(sizes),
        }
        settings = {**self.settings, "model": "conditional" if model == CONDITIONAL else "vae"}
        seeds = context.seed_list(*SEEDS)
        measure = MeasurementSpec(items=context.pick(1000, 10_000))
        return context.runs(
            Sweep(
                self.source, settings, {"learning_rate": self.rate}, {"name": "beta"}, {**grid, "seed": seeds}, measure
            )
        )

    def weight(self, beta: int) -> float:
        """What one of the paper's betas is here."""
        return beta if self.unit == 1 else round(self.unit * beta, 2)

    def by_beta(self, context: StudyContext, model: str) -> dict[int, list[StudyRun]]:
        """The runs with 10 latents at every beta of the model's figure, under the paper's."""
        return _grouped(BETAS[model], self.runs(context, model, BETAS[model]))

    def by_size(self, context: StudyContext) -> dict[int, list[StudyRun]]:
        """The runs of the standard VAE with every number of latents."""
        sizes = context.pick(*SIZES)
        return _grouped(sizes, self.runs(context, PLAIN, (1,), sizes))


def held_out_of(run: Run, data: Dataset) -> Dataset:
    """The images that a run was not trained on."""
    return data.split(run.configuration.split.held_out)[1]


def subject(context: StudyContext) -> Subject | None:
    """MNIST, or None, with a note, where its files are missing; small digits, under their own name, at quick scale."""
    if context.is_quick:
        context.note("Digits stand in for MNIST; with a twelfth of the pixels, each beta is a tenth of the paper's.")
        return None if context.open("digits") is None else _QUICK
    return None if context.open("mnist", part="all") is None else _PAPER


def of_images(work: Callable[[StudyContext, Subject], Findings]) -> Callable[[StudyContext], Findings]:
    """The work of a study that is given its images; where they are missing, it has no findings but a note."""

    @wraps(work)
    def study(context: StudyContext) -> Findings:
        found = subject(context)
        return Findings(()) if found is None else work(context, found)

    return study


def _history(run: Run, data: Dataset, device: str) -> JsonTable:
    """Loss and share of the KL at each epoch that was logged, by split."""
    configuration = run.configuration
    beta, plan, held_out = (
        strengths(configuration.member.objective)["beta"],
        configuration.plan,
        configuration.split.held_out,
    )
    training = len(data) - (held_out if isinstance(held_out, int) else round(held_out * len(data)))
    found: JsonTable = {
        split: [
            {
                "epoch": row["step"] / (training // plan.batch),
                LOSS: row["loss"],
                SHARE: 100 * beta * row["rate"] / row["loss"],
            }
            for row in run.history
            if row["split"] == split
        ]
        for split in SPLITS
    }
    return {**found, "reconstruction": run.last("test")["reconstruction"]}


HISTORY = Measurement("bound-and-share", _history)


def asked_histories(context: StudyContext, groups: Mapping[int, Sequence[StudyRun]]) -> dict[int, Values]:
    """The histories of groups of runs."""
    return {key: context.measured(runs, HISTORY) for key, runs in groups.items()}


def end_cells(of: Mapping[str, object], values: Values) -> list[Cell]:
    """The negative ELBO at the end of training, on held-out images, and the share of the KL in it."""
    return [Cell.over({**of, "measure": name}, [one["test"][-1][name] for one in values]) for name in (LOSS, SHARE)]


def curves(groups: Mapping[str, Values], title: str, sentences: tuple[str, str]) -> tuple[Lines, Lines]:
    """Negative ELBO and share of the KL against epochs, a line for each group and a panel for each split."""
    rows = [row for name, values in groups.items() for split in SPLITS for row in _curve(name, values, split)]

    def chart(of: str, measure: str, sentence: str) -> Lines:
        name = f"{title}: {of}"
        return Lines(name, sentence, rows, "epoch", measure, "of", "split", None, x_title="epoch", y_title=measure)

    return chart(LOSS, LOSS, sentences[0]), chart("share of the KL", SHARE, sentences[1])


def _curve(name: str, values: Values, split: str) -> list[JsonTable]:
    """The mean over seeds at each row of the histories, which have the same steps."""
    found = []
    for rows in zip(*(one[split] for one in values), strict=True):
        means = {measure: fmean(row[measure] for row in rows) for measure in (LOSS, SHARE)}
        found.append({"epoch": rows[0]["epoch"], "split": split, "of": name, **means})
    return found


def _grouped(keys: Sequence[int], runs: Sequence[StudyRun]) -> dict[int, list[StudyRun]]:
    each = len(runs) // len(keys)
    return {key: list(runs[each * at : each * (at + 1)]) for at, key in enumerate(keys)}


def _settings(width: int, every: int, held_out: float | int, **settings: object) -> JsonTable:
    widths = {"encoder_widths": (width,), "decoder_widths": (width,)}
    activations = {"encoder_activation": "tanh", "decoder_activation": "tanh"}
    return {
        "net": {"name": "mlp", **widths, **activations},
        "initialisation": "torch",
        "optimiser": "adagrad",
        "batch": 100,
        "held_out": held_out,
        "evaluation_items": 10_000,
        "log_every": every,
        "evaluate_every": every,
        "monitor_every": 0,
        **settings,
    }


_MNIST = {"name": "mnist", "part": "all"}
_PAPER = Subject("MNIST", _MNIST, 1e-2, 1, _settings(500, 600, 10_000, epochs=200, precision="tf32"))
_QUICK = Subject("Digits", "digits", 1e-2, 0.1, _settings(32, 40, 0.2, optimiser="adam", batch=50, steps=400))
