"""What alpha and beta do to codes of the pinwheel under a clustered prior (Mathieu et al., section 6.2, figure 3)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.priors import Mixture
from vaescope.regime import mutual_information_bound
from vaescope.runs import MeasurementSpec, Run
from vaescope.studies.charts import Chart, Lines, Pictures
from vaescope.studies.context import Measurement, StudyContext, Values, grouped
from vaescope.studies.mathieu import claims
from vaescope.studies.measurements import images, pictures
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study, cell_rows, measure_cells
from vaescope.sweeps import Sweep

Pair = tuple[float, float]  # alpha and beta
MEASURES = {
    "KL(p, q)": "prior mass that no code covers",
    "KL(q, p)": "codes where the prior has little mass",
    "I(x; z)": "nats, at most log 400 = 5.99; telling four clusters apart takes log 4 = 1.39",
    "sd": "mean standard deviation of q(z|x); a cluster's is .173",
}
DATA = "pinwheel"
VARIANCE, DRAWS = 0.03, 4000
PICTURE_LIMIT, PIXELS = 2.0, 48  # of the pictures, from -2 to 2 on both axes
ALPHAS = (0.0, 1.0, 8.0), (0.0, 0.1, 1.0, 3.0, 8.0)
BETAS = (0.0, 0.5, 1.0, 2.0), (0.0, 0.01, 0.5, 1.0, 1.2, 2.0)
STEPS = (500,), (500, 5000)
LEFT_OPEN = (
    "The figure is a picture without numbers, and its grid of alpha and beta is not published; this one holds both of "
    "the settings in the authors' code, (alpha, beta) = (0, 1) and (1, 0). As there: 400 points, one hidden layer of "
    "100 ReLU, four Gaussians of variance .03, KL(p(z) || q(z)) over the batch, AMSGrad at 1e-3, 500 epochs of one "
    "batch; since models of beta 1 and more are still collapsed then, 5000 as well. Different: one learned variance "
    "for all outputs where the code has a softplus scale, a log-variance head, Glorot weights. The measures are ours: "
    "q(z) is over all points. At quick scale a hidden layer of 50, 500 steps of 50 points at 5e-3, and fewer draws."
)


def gaussians(
    means: Float[Tensor, "components latents"], variances: Float[Tensor, "components latents"]
) -> MixtureSameFamily:
    """Equally weighted Gaussians; their densities are PyTorch's, not those that the training loss has."""
    return MixtureSameFamily(Categorical(torch.ones(len(means))), Independent(Normal(means, variances.sqrt()), 1))


def clusters() -> MixtureSameFamily:
    """The prior."""
    centres = torch.tensor(Mixture().means, dtype=torch.float64)
    return gaussians(centres, torch.full_like(centres, VARIANCE))


def measured(codes: Representation, draws: int = DRAWS) -> dict[str, float]:
    """Overlap, and match of aggregate posterior and prior, in the order of MEASURES."""
    wanted, aggregate = clusters(), gaussians(codes.mean.double(), codes.variance.double())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        z, own = wanted.sample((draws,)), aggregate.sample((draws,))
    values = (
        float((wanted.log_prob(z) - aggregate.log_prob(z)).mean()),
        float((aggregate.log_prob(own) - wanted.log_prob(own)).mean()),
        mutual_information_bound(codes.mean, codes.variance, codes.sample).information,
        float(codes.variance.sqrt().mean()),
    )
    return dict(zip(MEASURES, values, strict=True))


def density(mixture: MixtureSameFamily) -> Float[Tensor, "one height width"]:
    """The density over the plane as an image, its largest value white."""
    line = torch.linspace(-PICTURE_LIMIT, PICTURE_LIMIT, PIXELS, dtype=torch.float64)
    height, width = torch.meshgrid(line.flip(0), line, indexing="ij")
    values: Tensor = mixture.log_prob(torch.stack([width, height], -1).flatten(0, 1))
    return (values - values.max()).exp().reshape(1, PIXELS, PIXELS).float()


def figure3(context: StudyContext) -> Findings:
    """Every alpha and beta: the measures over seeds, and the density of q(z) for the first."""
    asked = {steps: _asked(context, steps) for steps in context.pick(*STEPS)}
    cells: list[Cell] = []
    charts: list[Chart] = []
    for steps, found in asked.items():
        trained = context.cut({"steps": steps}, DATA)["steps"]
        own: list[Cell] = []
        for (alpha, beta), values in found.items():
            measures = [one["measures"] for one in values]
            own += measure_cells({"steps": trained, "alpha": alpha, "beta": beta}, measures, MEASURES)
        cells += own
        charts += [_curves(trained, own), _densities(context, trained, found)]
    return Findings(tuple(cells), tuple(charts))


def _asked(context: StudyContext, steps: int) -> dict[Pair, Values]:
    pairs = itertools.product(context.pick(*ALPHAS), context.pick(*BETAS))
    runs = grouped(pairs, context.runs(_sweep(context, steps)))
    return context.measured_by(runs, Measurement("pinwheel", _measured, {"draws": context.pick(DRAWS // 8, DRAWS)}))


def _measured(run: Run, data: Dataset, device: str, draws: int) -> JsonTable:
    """The measures, and the density of the aggregate posterior as an image."""
    codes = encode(run.model, data, device="cpu", progress=False)
    aggregate = gaussians(codes.mean.double(), codes.variance.double())
    return {"measures": measured(codes, draws), "density": pictures(density(aggregate))}


def _sweep(context: StudyContext, steps: int) -> Sweep:
    width = [context.pick(50, 100)]
    return Sweep(
        DATA,
        {
            "net": {"name": "mlp", "encoder_widths": width, "decoder_widths": width},
            "prior": {"name": "mixture", "variances": VARIANCE},
            "likelihood": {"name": "gaussian", "variance": 1.0, "learned": True},
            "optimiser": "amsgrad",
            "batch": context.pick(50, 400),
            "steps": steps,
            "held_out": 0,
            "log_every": steps // 5,
            "evaluate_every": steps,
            "monitor_every": 0,
        },
        {"latents": 2, "learning_rate": context.pick(5e-3, 1e-3)},
        {"name": "decomposition", "divergence": "kl"},
        {
            "objective.alpha": list(context.pick(*ALPHAS)),
            "objective.beta": list(context.pick(*BETAS)),
            "seed": context.seed_list(2, 3),
        },
        MeasurementSpec(items=400),
    )


def _curves(steps: int, cells: Sequence[Cell]) -> Lines:
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in MEASURES.items())
    title = f"Overlap and match against beta, {steps} steps"
    sentence = (
        f"Source: overlap grows with beta (I(x; z) falls), the match of aggregate and prior with alpha. {meanings}."
    )
    return Lines(title, sentence, cell_rows(cells), x="beta", y="value", by="alpha", panel="measure", log_y=True)


def _densities(context: StudyContext, steps: int, found: dict[Pair, Values]) -> Pictures:
    betas = context.pick(*BETAS)
    strips = [("the prior", density(clusters())[None])]
    for alpha in context.pick(*ALPHAS):
        strips.append((f"alpha {alpha:g}", torch.stack([images(found[alpha, beta][0]["density"]) for beta in betas])))
    texts = ", ".join(f"{beta:g}" for beta in betas)
    return Pictures(
        f"Density of the aggregate posterior, {steps} steps",
        f"From left to right beta {texts}; both axes from -{PICTURE_LIMIT:g} to {PICTURE_LIMIT:g}, the first seed. "
        "The largest density of each picture is white; it is dark where codes are narrower than a pixel, or outside.",
        strips,
        [f"beta {beta:g}" for beta in betas],
    )


STUDIES = (
    Study(
        "mathieu-figure3",
        "Mathieu et al., Disentangling disentanglement, Figure 3",
        "What do alpha and beta each do to the aggregate posterior under a clustered prior?",
        LEFT_OPEN,
        figure3,
        claims=claims.FIGURE_3,
    ),
)
