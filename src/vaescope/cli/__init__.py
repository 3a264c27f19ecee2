"""The command line; heavy packages load when a command runs, so `--help` never loads torch."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import TextIO

import typer
from typer import Option

from vaescope.cli import datasets, delete, diagnose, fit, fondue, reproduce, runs, sweep, variants
from vaescope.cli.help import PlainCommand, PlainGroup
from vaescope.errors import DamagedRunWarning, VaescopeError
from vaescope.memory import memory_shortage
from vaescope.terminal import command_line, print_line, print_warning

app = typer.Typer(
    name="vaescope",
    cls=PlainGroup,
    help="See which of a VAE's latents are alive, how many it needs, and what they mean.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (datasets.datasets, fondue.fondue):
    app.command(cls=PlainCommand)(command)
app.command(cls=PlainCommand, epilog=variants.listing())(fit.fit)
for command in (
    fit.resume,
    diagnose.diagnose,
    diagnose.compare,
    diagnose.report,
    runs.prune,
    runs.export,
    sweep.sweep,
    reproduce.reproduce,
):
    app.command(cls=PlainCommand)(command)
runs.app.command("delete", cls=PlainCommand)(delete.delete)
app.add_typer(runs.app, name="runs")


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: bool = Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if version:
        from vaescope import __version__

        print_line(f"vaescope {__version__}")
        raise typer.Exit
    context.with_resource(command_line())


FAILED, INTERRUPTED = 2, 130  # exit codes
UNREAD = 1  # exit code when the reader of a pipe has closed it; typer uses the same
DAMAGED = 1  # exit code of a command that skipped damaged runs
# Without the name of a file, these are errors of the stream that is printed to.
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main() -> None:
    """Run a command; wrong input prints one sentence and exits with code 2, a warning prints one sentence.

    A command that skipped damaged runs exits with code 1.
    """
    damaged: list[str] = []

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        print_warning(message)
        damaged.extend([str(message)] if issubclass(category, DamagedRunWarning) else [])

    warnings.showwarning = show
    # A closed stream is None. Its descriptor must not be reused for a file, to which libraries in C would then print.
    sys.stdout, sys.stderr = (stream or _dropped() for stream in (sys.stdout, sys.stderr))
    try:
        try:
            with memory_shortage("the data and models of a command", "Use fewer items or smaller models."):
                app()
        finally:
            sys.stdout.flush()  # while an error can still be printed
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
        # Typer may have turned an interrupt into an exit code.
        if isinstance(end, SystemExit) and not end.code and damaged:
            sys.exit(DAMAGED)
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print_line("Interrupted. Finished work is kept; run the same command to resume.", sys.stderr)
        sys.exit(INTERRUPTED)


def _dropped() -> TextIO:
    """A stream that discards what is written to it."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
