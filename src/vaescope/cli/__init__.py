"""The command line; heavy packages load when a command runs, so `--help` never loads torch."""

from __future__ import annotations

import sys
import warnings

import typer
from typer import Option

from vaescope.cli import diagnose, fit, fondue, reproduce, runs, sweep, variants
from vaescope.errors import VaescopeError

app = typer.Typer(
    name="vaescope",
    help="See which of a VAE's latents are alive, how many it needs, and what they mean.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(fit.datasets)
app.command()(fondue.fondue)
app.command(epilog=variants.listing())(fit.fit)
app.command()(diagnose.diagnose)
app.command()(diagnose.compare)
app.command()(diagnose.report)
app.command()(runs.prune)
app.command()(runs.export)
app.command()(sweep.sweep)
app.command()(reproduce.reproduce)
app.add_typer(runs.app, name="runs")


@app.callback(invoke_without_command=True)
def options(
    version: bool = Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if version:
        from vaescope import __version__

        print(f"vaescope {__version__}")
        raise typer.Exit


INTERRUPTED = 130  # exit code of an interrupted command


def main() -> None:
    """Run a command; wrong input prints one sentence and exits with code 2, a warning prints one sentence."""
    warnings.showwarning = lambda message, *where, **more: print(f"warning: {message}", file=sys.stderr)
    try:
        app()
    except VaescopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer may turn an interrupt into an exit code first.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print("Interrupted. Finished work is kept; run the same command to resume.", file=sys.stderr)
        sys.exit(INTERRUPTED)
