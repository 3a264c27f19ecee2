"""Train one model and keep it in memory: what `fit` does, without a folder."""

from __future__ import annotations

from dataclasses import dataclass

from vaescope.data import DataLike, open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import TrainableModel
from vaescope.progress import progress_bar
from vaescope.runs.checkpointing import flat_row
from vaescope.runs.configuration import Configuration
from vaescope.runs.options import FitOptions
from vaescope.runs.record import Table
from vaescope.training import Member, Trainer
from vaescope.training.loop import training_rows


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, on the CPU and in evaluation mode, with everything that its weights depend on.

    Attributes:
        history: One row for each logged step and split: `step`, `split`, `loss` and every term.
    """

    configuration: Configuration
    model: TrainableModel
    history: list[Table]


def fit_in_memory(data: DataLike, member: Member, options: FitOptions | None = None) -> TrainedModel:
    """Train one model, with the weights that `fit` gives, and write nothing.

    Args:
        data: A name, a path, an array or a data set.
        member: Latents, objective, learning rate and seed.
        options: The other keywords of `fit`; the folder of runs and the time between checkpoints are not used.
    """
    options = FitOptions() if options is None else options
    if options.on_row is not None or options.tracker is not None:
        raise ConfigurationError("on_row and tracker need a run, which training in memory does not make. Use fit.")
    opened = open_dataset(data)
    (configuration,) = options.configurations(opened, [member])
    training, held_out = options.split().of(opened)
    plan = configuration.plan
    start = options.start_run()
    model = None if start is None else start.model
    device = options.chosen_device()
    trainer = Trainer(
        configuration.architecture, [member], plan, training, held_out, device, start=model, compile=options.compile
    )
    with progress_bar(f"training on {opened.name}", plan.steps, options.progress, unit="steps") as report:
        history = [flat_row(row, 1) for rows in training_rows(trainer, report) for row in rows]
    return TrainedModel(configuration, trainer.model(), history)
