"""The command line: one module for each command, loaded when it is called; `--help` never loads torch."""

from __future__ import annotations

import sys
import warnings

import typer

from vaescope.cli import (
    compare,
    datasets,
    diagnose,
    export,
    fit,
    fondue,
    prune,
    report,
    reproduce,
    runs,
    sweep,
    variants,
)
from vaescope.errors import VaescopeError

app = typer.Typer(
    name="vaescope",
    help="See which of a VAE's latents are alive, how many it needs, and what they mean.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("datasets")(datasets.datasets)
app.command("fondue")(fondue.fondue)
app.command("fit", epilog=variants.listing())(fit.fit)
app.command("diagnose")(diagnose.diagnose)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("prune")(prune.prune)
app.command("export")(export.export)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(runs.app, name="runs")


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
) -> None:
    if version:
        from vaescope import __version__

        print(f"vaescope {__version__}")
        raise typer.Exit


STOPPED = 130  # the exit code of a command that an interrupt ended


def main() -> None:
    """Run a command; a mistake in the input is one sentence and exit code 2, a warning is one sentence."""
    warnings.showwarning = lambda message, *where, **more: print(f"warning: {message}", file=sys.stderr)
    try:
        app()
    except VaescopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer makes an exit code of an interrupt before it gets here.
        if isinstance(end, SystemExit) and end.code != STOPPED:
            raise
        print("stopped; what was trained is kept, the same command takes it up again.", file=sys.stderr)
        sys.exit(STOPPED)
