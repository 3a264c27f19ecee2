"""The command line; heavy packages load when a command runs, so `--help` never loads torch."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import TextIO

import typer
from typer import Option

from vaescope.cli import diagnose, fit, fondue, reproduce, runs, sweep, variants
from vaescope.errors import DamagedRunWarning, VaescopeError
from vaescope.memory import memory_shortage
from vaescope.terminal import print_line, print_warning

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

        print_line(f"vaescope {__version__}")
        raise typer.Exit


FAILED, INTERRUPTED = 2, 130  # exit codes
UNREAD = 1  # the exit code when the reader of a pipe left; of typer, too
DAMAGED = 1  # the exit code of a command that left out damaged runs
# Without the name of a file, these are errors of the stream that is printed to.
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main() -> None:
    """Run a command; wrong input prints one sentence and exits with code 2, a warning prints one sentence.

    A command that left out damaged runs exits with code 1.
    """
    damaged: list[str] = []

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        print_warning(message)
        damaged.extend([str(message)] if issubclass(category, DamagedRunWarning) else [])

    warnings.showwarning = show
    # A closed stream is None. Its number must not become that of a file, into which libraries in C would print.
    sys.stdout, sys.stderr = (stream or _dropped() for stream in (sys.stdout, sys.stderr))
    try:
        try:
            with memory_shortage("what this command works on", "Ask for less of it, or for smaller models."):
                app()
        finally:
            sys.stdout.flush()  # while an error can be told
    except VaescopeError as error:
        print_line(f"error: {error}", sys.stderr)
        sys.exit(FAILED)
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRORS:
            raise
        sys.stdout = _dropped()
        if error.errno == errno.EPIPE:
            sys.exit(UNREAD)
        print_line(f"error: the output cannot be written ({error.strerror}).", sys.stderr)
        sys.exit(FAILED)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer may turn an interrupt into an exit code first.
        if isinstance(end, SystemExit) and not end.code and damaged:
            sys.exit(DAMAGED)
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print_line("Interrupted. Finished work is kept; run the same command to resume.", sys.stderr)
        sys.exit(INTERRUPTED)


def _dropped() -> TextIO:
    """A stream that nothing comes out of."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
