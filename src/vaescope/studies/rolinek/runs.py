"""What Rolinek et al. train in section 5 (settings of supplement B.4), and what is measured of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jaxtyping import Int
from torch import Tensor

from vaescope.data import DataLike, Dataset
from vaescope.encoding import distance_to_orthogonality, encode
from vaescope.errors import DataError
from vaescope.metrics import neighbours
from vaescope.runs import MeasurementSpec, Run
from vaescope.studies.context import Measurement, StudyContext, StudyRun, grouped
from vaescope.studies.results import JsonTable
from vaescope.sweeps import Sweep

BETA_VAE, VAE, AE, SIGMA, RANDOM = "beta-VAE", "VAE", "AE", "beta-VAE_Sigma", "Random decoder"
BERNOULLI = ", Bernoulli pixels"
# Models that differ in the weight of the rate alone train together; the settings are what makes the others.
GROUPS: tuple[tuple[tuple[str, ...], JsonTable], ...] = (
    ((BETA_VAE, VAE), {}),
    ((AE,), {"model": "autoencoder"}),
    ((SIGMA,), {"posterior": "full"}),
)
SEEDS = 2, 10
JACOBIANS = 100, 1000  # items at which DtO is taken
DTO, DISENTANGLEMENT = "DtO", "Disent."


@dataclass(frozen=True)
class ComparedSet:
    """One data set of the tables, with the net and the training that it is given.

    Attributes:
        label: Its name in the tables.
        source: What `open_dataset` takes.
        models: Those that are compared on it.
        beta: The weight of the rate in all models but the VAE.
        regime_beta: The weight in the study of the regime.
        continuous: For each factor that varies whether the score takes it as a number rather than a class; empty
            where there are none.
    """

    label: str
    source: str | JsonTable
    models: tuple[str, ...]
    latents: int
    rate: float
    beta: float
    regime_beta: float
    settings: Mapping[str, object] = field(repr=False)
    continuous: tuple[bool, ...] = ()

    def sweep(self, grid: Mapping[str, Sequence[object]], source: DataLike | None = None, **settings: object) -> Sweep:
        """The runs of the task over a grid; without a weight in it, they have the task's own."""
        return Sweep(
            self.source if source is None else source,
            {**self.settings, **settings},
            {"latents": self.latents, "learning_rate": self.rate},
            {"name": "beta", "beta": self.beta},
            grid,
            MeasurementSpec(items=1000),
        )

    def runs(self, context: StudyContext) -> dict[str, list[StudyRun]]:
        """The runs of every model that is compared, one for each seed."""
        found: dict[str, list[StudyRun]] = {}
        for together, settings in GROUPS:
            models = [model for model in together if model in self.models]
            betas = [1.0 if model == VAE else self.beta for model in models]
            if models:
                grid: dict[str, Sequence[object]] = {"objective.beta": betas, "seed": context.seed_list(*SEEDS)}
                found |= grouped(models, context.runs(self.sweep(grid, None, **settings)))
        return {model: found[model] for model in self.models}

    def with_bernoulli(self) -> ComparedSet:
        """The same task with Bernoulli pixels in place of the squared error."""
        return replace(self, settings={**self.settings, "likelihood": "bernoulli"})

    def in_regime(
        self, context: StudyContext, sizes: Mapping[str, int], **settings: object
    ) -> dict[str, list[StudyRun]]:
        """The runs of the study of the regime, one for each seed, by what each number of latents is called."""
        latents, seeds = list(sizes.values()), context.seed_list(*SEEDS)
        grid: dict[str, Sequence[object]] = {
            "objective.beta": [self.regime_beta],
            "latents": latents,
            "seed": seeds,
        }
        return grouped(sizes, context.runs(self.sweep(grid, None, **settings)))

    def scores(self, context: StudyContext) -> Measurement:
        """DtO (eq. 29) and, where there are factors, the disentanglement score (supplement B.1), of held-out items."""
        items, jacobians = context.pick(1000, 5000), context.pick(*JACOBIANS)
        options = {"items": items, "jacobians": jacobians, "continuous": list(self.continuous)}
        return Measurement("orthogonality", _scores, options)


def _scores(
    run: Run, data: Dataset, device: str, items: int, jacobians: int, continuous: list[bool]
) -> dict[str, float]:
    some = data.split(run.configuration.split.held_out)[1].draw(items)
    model = run.model.to(device)
    codes = encode(model, some, progress=False)
    found = {DTO: distance_to_orthogonality(model, codes, items=jacobians).score}
    if continuous:
        numbers = [place for place, number in enumerate(continuous) if number]
        found[DISENTANGLEMENT] = neighbours(codes.mean, _varying_factors(some), continuous=numbers).score
    return found


def _delta_kl(run: Run, data: Dataset, device: str) -> JsonTable:
    """The relative error of the regime's KL (eq. 30) at every step that was monitored."""
    rows = [row for row in run.history if row["split"] == "probe"]
    return {
        "steps": [row["step"] for row in rows],
        "delta_kl": [row["delta_kl"] for row in rows],
        "of": run.configuration.plan.steps,
    }


DELTA_KL = Measurement("delta-kl", _delta_kl)


def task(context: StudyContext, label: str) -> ComparedSet | None:
    """The task with this label at a scale; None, with a note, where its data are not there."""
    found = context.pick(QUICK, PAPER)[label]
    source = dict(found.source) if isinstance(found.source, Mapping) else {"name": found.source}
    return None if context.open(source.pop("name"), **source) is None else found


def tasks(context: StudyContext) -> list[ComparedSet]:
    """All tasks whose data are there; at the quick scale, small digits stand in for MNIST where that is missing."""
    labels = list(context.pick(QUICK, PAPER))
    found = [one for label in labels if label != DIGITS and (one := task(context, label)) is not None]
    if DIGITS in labels and not context.settings.data and all(one.label != MNIST for one in found):
        context.note(f"{DIGITS} (8 x 8 pixels) stand in for {MNIST}.")
        found += [one for one in [task(context, DIGITS)] if one is not None]
    return found


def _varying_factors(items: Dataset) -> Int[Tensor, "items factors"]:
    factors, table = items.factors, items.factor_table
    if factors is None or table is None:
        raise DataError(f"the disentanglement score needs factors, {items.name} has none.")
    return factors[:, [place for place, size in enumerate(table.sizes) if size > 1]]


def _measured_often(every: int, held_out: float | int, variance: float = 0.5, **settings: object) -> JsonTable:
    """Settings of training that is measured `every` steps.

    With a variance of 1/2, minus the log-likelihood is the summed squared error, but for a constant.
    """
    often = {"log_every": every, "monitor_every": every, "evaluate_every": 20 * every}
    likelihood = {"name": "gaussian", "variance": variance}
    return {"likelihood": likelihood, "batch": 64, "held_out": held_out, **often, **settings}


def _mlp(encoder: tuple[int, ...], decoder: tuple[int, ...], activation: str = "relu") -> JsonTable:
    widths = {"encoder_widths": encoder, "decoder_widths": decoder}
    return {"name": "mlp", **widths, "encoder_activation": activation, "decoder_activation": "tanh"}


LINEAR, NONLINEAR, MNIST, FASHION = "Synth. Lin.", "Synth. Non-Lin.", "MNIST", "fMNIST"
FULL_SPRITES, SMALL_SPRITES, DIGITS = "dSprites", "dSprites (small)", "Digits"


def _by_label(*given: ComparedSet) -> dict[str, ComparedSet]:
    return {one.label: one for one in given}


_SPRITES = ComparedSet(
    FULL_SPRITES,
    "dsprites",
    models=(BETA_VAE, VAE, AE, SIGMA),
    latents=5,
    rate=1e-2,
    beta=4.0,
    regime_beta=4.0,
    settings=_measured_often(500, 0.2, net="fully_connected", optimiser="adagrad", epochs=50, precision="tf32"),
    continuous=(False, True, True, True, True),  # the shape is a class
)
_LINEAR = ComparedSet(
    LINEAR,
    "synthetic-linear",
    models=(BETA_VAE, AE, SIGMA),
    latents=2,
    rate=1e-3,
    beta=1e-4,
    regime_beta=1e-4,
    settings=_measured_often(500, 0.2, net="affine", epochs=600),
    continuous=(True, True),
)
_NONLINEAR = replace(
    _LINEAR,
    label=NONLINEAR,
    source="synthetic-nonlinear",
    beta=1e-3,
    regime_beta=1e-3,
    settings=_measured_often(500, 0.2, net=_mlp((60, 40, 20), (60, 40, 20), "tanh"), epochs=600),
)
_PICTURES: JsonTable = {"net": _mlp((400,), (500, 500)), "optimiser": "adagrad", "precision": "tf32"}
_MNIST = ComparedSet(
    MNIST,
    {"name": "mnist", "part": "all"},
    models=(VAE, AE, SIGMA),
    latents=6,
    rate=1e-2,
    beta=1.0,
    regime_beta=1.0,
    settings=_measured_often(500, 10_000, epochs=400, **_PICTURES),
)
_FASHION = replace(
    _MNIST,
    label=FASHION,
    source={"name": "fashion-mnist", "part": "all"},
    settings=_measured_often(500, 10_000, epochs=500, **_PICTURES),
)
PAPER = _by_label(_SPRITES, _LINEAR, _NONLINEAR, _MNIST, _FASHION)
# Short training on few items finds the orthogonal decoder only with more weight on the rate, which is what favours it,
# and the regime, which is about small variances, only with less.
_QUICK_MNIST = replace(
    _MNIST,
    rate=3e-2,
    regime_beta=0.1,
    settings=_measured_often(20, 10_000, net=_mlp((48,), (48, 48)), optimiser="adagrad", steps=160),
)
QUICK = _by_label(
    replace(
        _SPRITES,
        label=SMALL_SPRITES,
        source="dsprites-small",
        models=(),
        rate=3e-2,
        regime_beta=0.3,
        settings=_measured_often(20, 0.2, net=_mlp((10,), (10,)), optimiser="adagrad", batch=32, steps=160),
    ),
    replace(
        _LINEAR,
        source={"name": "synthetic-linear", "items": 5000},
        rate=5e-2,
        beta=1e-1,
        regime_beta=1e-2,
        settings=_measured_often(50, 0.2, net="affine", steps=600),
    ),
    replace(
        _NONLINEAR,
        source={"name": "synthetic-nonlinear", "items": 5000},
        rate=1e-2,
        beta=3e-2,
        settings=_measured_often(50, 0.2, net=_mlp((20, 10), (20, 10), "tanh"), steps=400),
    ),
    _QUICK_MNIST,
    replace(
        _QUICK_MNIST,
        label=DIGITS,
        source="digits",
        settings=_measured_often(20, 0.2, 0.15, net=_mlp((64,), (64, 64)), optimiser="adagrad", steps=200),
    ),
)
