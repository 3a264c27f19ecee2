"""Options and arguments that several commands share, with their help."""

from __future__ import annotations

from typing import Annotated

import typer

from vaescope.cli.variants import choices

FROM_DATA, FROM_MODEL = "; default: chosen from the data", "; default: chosen by the model"

# What to work on
Data = Annotated[str, typer.Argument(help="Name of a data set (see `vaescope datasets`), or path to your own data.")]
RunId = Annotated[str, typer.Argument(help="Id of a run (its first characters suffice), or its folder.")]
EncodedData = Annotated[str | None, typer.Option("--data", help="Data to encode; default: the data of the run.")]

# Parts of a model and its training
Model = Annotated[str, typer.Option(help=choices("model"))]
Net = Annotated[str | None, typer.Option(help=choices("net", FROM_DATA))]
Likelihood = Annotated[str | None, typer.Option(help=choices("likelihood", FROM_DATA))]
Posterior = Annotated[str | None, typer.Option(help=choices("posterior", FROM_MODEL))]
Prior = Annotated[str | None, typer.Option(help=choices("prior", FROM_MODEL))]
Objective = Annotated[str, typer.Option(help=choices("objective"))]
WarmUp = Annotated[
    float | None, typer.Option(help="Steps over which all terms but the reconstruction reach their full weight.")
]
FreeBits = Annotated[float | None, typer.Option(help="Nats of each latent's rate that are not penalised.")]
Optimiser = Annotated[str, typer.Option(help=choices("optimiser"))]
Precision = Annotated[str, typer.Option(help=choices("precision"))]
Initialisation = Annotated[str | None, typer.Option(help=choices("initialisation", FROM_MODEL))]
HeldOut = Annotated[float, typer.Option(help="Share of items held out of training for evaluation.")]
PartSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any option of a part, as PART.OPTION=VALUE, such as net.kernels=[4,4,4,4]."),
]

# How to work
Device = Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda if available.")]
Items = Annotated[int, typer.Option(help="Maximum number of items to encode.")]
Seed = Annotated[int, typer.Option(help="Random seed for sampling and item selection.")]
Alpha = Annotated[float, typer.Option(help="Threshold of the variable types.")]
Metrics = Annotated[
    str | None, typer.Option(help=f"Metrics to compute, separated by commas, or all: {choices('metric')}")
]
Runs = Annotated[str, typer.Option("--runs", help="Folder of the runs.")]
Json = Annotated[bool, typer.Option("--json", help="Output JSON.")]
