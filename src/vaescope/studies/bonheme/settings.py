"""What the studies of the thesis share (Bonheme, Tables C.1 to C.5): data, nets, objectives; strengths of Locatello."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.regime import variable_types
from vaescope.runs import Run, sample_items
from vaescope.studies.context import StudyContext, StudyRun, grouped, quick_training
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Shared, cell_rows
from vaescope.sweeps import Sweep

THESIS = "Bonheme, The polarised regime of variational autoencoders"
LATENTS, ITEMS = 10, 10_000
DSPRITES, COLOUR, NOISY, SCREAM = "dsprites", "dsprites-color", "dsprites-noisy", "dsprites-scream"
CARS, NORB, DIGITS = "cars3d", "smallnorb", "digits"
TITLES = {
    DSPRITES: "dSprites",
    COLOUR: "colour dSprites",
    NOISY: "noisy dSprites",
    SCREAM: "scream dSprites",
    CARS: "Cars3D",
    NORB: "SmallNORB",
    DIGITS: "digits",
}
QUICK_STEPS, PAPER_STEPS = 400, 300_000
QUICK_DATA = Shared(
    "Quick runs on digits",
    "At quick scale the data are scikit-learn's 1797 digits of 8 x 8 pixels, the net has two hidden layers of 32 on "
    "each side, pixels are Gaussian with the variance 0.015, and there are 400 steps of rate 0.005; at paper scale "
    "products are in bfloat16.",
)
# Types of latents are looked at when a run is done; looking while it trains would only warn of what is studied here.
QUICK = quick_training([32, 32], QUICK_STEPS, likelihood={"name": "gaussian", "variance": 0.015}, monitor_every=0)
PAPER: JsonTable = {"net": "conv", "batch": 64, "precision": "bfloat16", "monitor_every": 0}
CONNECTED: JsonTable = {**PAPER, "net": "fully_connected"}


@dataclass(frozen=True)
class Family:
    """An objective, the strength that is varied, and its values at both scales.

    Values go from the weakest to the strongest, but for capacities, which weaken as they grow.
    """

    title: str
    name: str
    strength: str
    quick: tuple[float, ...]
    paper: tuple[float, ...]
    quick_options: Mapping[str, object] = field(default_factory=dict)


BETA = Family("beta-VAE", "beta", "beta", (1, 4, 8), (1, 2, 4, 6, 8, 16))
BETA_TC = Family("beta-TC VAE", "beta_tc", "beta", (1, 4, 10), (1, 2, 4, 6, 8, 10))
FACTOR = Family("FactorVAE", "factor", "gamma", (10, 100), (10, 20, 30, 40, 50, 100), {"critic_widths": [64, 64]})
DIP_I = Family("DIP-VAE I", "dip_i", "lambda_off_diagonal", (1, 50), (1, 2, 5, 10, 20, 50))
DIP_II = Family("DIP-VAE II", "dip_ii", "lambda_off_diagonal", (1, 10, 50), (1, 2, 5, 10, 20, 50))
ANNEALED = Family(
    "annealed VAE", "annealed", "capacity", (5, 10, 25), (5, 10, 25, 50, 75, 100), {"steps": QUICK_STEPS // 3}
)


def asked_runs(
    context: StudyContext,
    family: Family,
    data: str,
    strengths: Sequence[float] | None = None,
    *,
    seeds: int = 50,
    steps: int | None = None,
    settings: Mapping[str, object] = PAPER,
    quick_rows: int = 1,
) -> dict[float, list[StudyRun]]:
    """The runs of each strength, one for each seed; `seeds`, `steps` and `settings` are those of the paper.

    `quick_rows` is the number of rows in the history of a quick run.
    """
    chosen = context.pick(family.quick, family.paper) if strengths is None else tuple(strengths)
    length = steps or context.pick(QUICK_STEPS, PAPER_STEPS)
    # A history costs small nets as much time as their steps.
    quick = {**QUICK, "steps": length, "log_every": length // quick_rows, "evaluate_every": length}
    sweep = Sweep(
        data,
        context.pick(quick, {**settings, "steps": length}),
        {"latents": LATENTS, "learning_rate": context.pick(5e-3, 1e-4)},
        {"name": family.name, **context.pick(family.quick_options, {})},
        {f"objective.{family.strength}": list(chosen), "seed": context.seed_list(2, seeds)},
    )
    return grouped(chosen, context.runs(sweep))


def data_there(context: StudyContext, names: Iterable[str]) -> list[str]:
    """The data sets of the paper whose files are there, the others noted; digits at quick scale."""
    if context.is_quick:
        context.note("Quick: digits in place of dSprites and the other data of the thesis.")
        return [DIGITS]
    return [name for name in names if context.open(name) is not None]


def codes_of(run: Run, data: Dataset, device: str, items: int = ITEMS) -> Representation:
    """The codes of at most `items` items."""
    return encode(run.model, sample_items(data, items, 0), device=device, progress=False)


def types_of(codes: Representation) -> tuple[str, ...]:
    """The type of each latent by the thesis' rule (section 6.4.1)."""
    return variable_types(codes).types


def over(of: Mapping[str, object], values: Iterable[float | None], why: str) -> Cell:
    """The mean over the seeds that have a value; a cell without one says why."""
    found = [float(value) for value in values if value is not None]
    return Cell.over(of, found) if found else Cell(of, None, None, 0, why)


def rows_of(cells: Iterable[Cell]) -> list[JsonTable]:
    """Cells with a value as rows of a chart."""
    return cell_rows(cell for cell in cells if cell.value is not None)
