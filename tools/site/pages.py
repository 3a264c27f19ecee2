"""Pages that are run: their Python and shell examples are executed in order, and what they show is put below them."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vaescope.errors import CollapseWarning

# An example is a fenced block of a language that is run. `python no-run` and `sh no-run` are shown only.
BLOCK = re.compile(r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n", re.DOTALL | re.MULTILINE)
COLUMNS = 96  # width of the text of commands, which fits a page
SHELL_SECONDS = 600


class ExampleError(Exception):
    """An example of a page failed."""


@dataclass(frozen=True)
class Output:
    """What one example showed.

    Attributes:
        text: What it printed.
        html: How its last expression is displayed in a notebook; empty if it has no such form.
        value: The text of its last expression, if it has no form in HTML.
    """

    text: str = ""
    html: str = ""
    value: str = ""


@dataclass
class Examples:
    """Runs the examples of one page in one folder; those in Python share their names.

    Attributes:
        page: The name of the page, for errors.
        folder: The working folder of the examples.
        names: The names that the examples have defined so far.
    """

    page: str
    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self, language: str, code: str) -> Output:
        """Run one example."""
        with _working_folder(self.folder):
            return self._python(code) if language == "python" else self._shell(code)

    def _python(self, code: str) -> Output:
        tree = ast.parse(code, self.page)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                # What the library warns about is part of what an example shows.
                warnings.filterwarnings("always", category=CollapseWarning)
                warnings.showwarning = _print_warning
                exec(compile(tree, self.page, "exec", dont_inherit=True), self.names)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), self.page, "eval", dont_inherit=True), self.names)
        except Exception as error:
            raise ExampleError(f"{self.page}: an example failed.\n\n{code}\n{traceback.format_exc()}") from error
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        shown = "" if value is None or html is not None else repr(value)
        return Output(printed.getvalue(), html or "", shown)

    def _shell(self, code: str) -> Output:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "COLUMNS": str(COLUMNS), "PATH": path, "NO_COLOR": "1"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            timeout=SHELL_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ExampleError(f"{self.page}: a command failed.\n\n{code}\n{done.stdout}\n{done.stderr}")
        return Output(done.stdout)


def _print_warning(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    print(f"{category.__name__}: {message}")


@contextlib.contextmanager
def _working_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@dataclass(frozen=True)
class Part:
    """A piece of a page: text, or an example with what it showed."""

    text: str
    language: str = ""
    output: Output = Output()


def run_page(page: str, text: str, folder: Path) -> list[Part]:
    """Run all examples of a page, in order."""
    examples, parts, end = Examples(page, folder), [], 0
    for block in BLOCK.finditer(text):
        language, code = block["language"], block["code"]
        parts += [Part(text[end : block.start()]), Part(code, language, examples.run(language, code))]
        end = block.end()
    return [*parts, Part(text[end:])]
