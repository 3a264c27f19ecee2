"""The documentation: every example is run somewhere, every command exists, notebooks equal their tutorials."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import vaescope
from vaescope.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "studies")]
# Pages whose examples `make docs` runs.
RUN_BY_THE_SITE = ("concepts", "tutorials")
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)

sys.path.insert(0, str(ROOT / "tools" / "site"))


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_are_run_by_a_test_or_when_the_site_is_built(page: Path) -> None:
    if not blocks(page, "python"):
        return
    tests = (Path(__file__).parent / "test_docs.py").read_text(encoding="utf-8")
    assert page.parent.name in RUN_BY_THE_SITE or f'"{page.name}"' in tests


def command_lines() -> Iterator[tuple[str, str]]:
    """Every command of the documentation, with its page."""
    for page in PAGES:
        for block in blocks(page, "sh") + blocks(page, "text") + blocks(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"(?:\$ )?(vaescope .*)", line)
                if found is not None:
                    yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), sorted(set(command_lines())))
def test_a_command_of_the_documentation_is_one_that_the_command_line_takes(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    words = words[: min((words.index(one) for one in ("|", ">", "&&") if one in words), default=len(words))]
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    # Parses options and arguments, and raises an error for any that does not exist.
    command.make_context("vaescope", words)


def modules_with_examples() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(vaescope.__path__, "vaescope.")]
    return [name for name in names if ">>>" in (Path(importlib.util.find_spec(name).origin or "").read_text("utf-8"))]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS, report=True)
    assert tried
    assert not failed


def test_the_notebooks_have_the_text_and_examples_of_their_tutorials_and_outputs() -> None:
    from notebooks import NOTEBOOKS, notebook
    from pages import BLOCK as RUN
    from pages import Part

    for tutorial, file in NOTEBOOKS.items():
        text, parts, end = (DOCS / "tutorials" / f"{tutorial}.md").read_text(encoding="utf-8"), [], 0
        for block in RUN.finditer(text):
            parts += [Part(text[end : block.start()]), Part(block["code"], block["language"])]
            end = block.end()
        cells = notebook([*parts, Part(text[end:])])["cells"]
        kept = json.loads((ROOT / "examples" / file).read_text(encoding="utf-8"))["cells"]
        assert [(one["cell_type"], one["source"]) for one in kept] == [
            (one["cell_type"], one["source"]) for one in cells
        ]
        assert any(one.get("outputs") for one in kept)


def test_every_package_of_the_reference_exists_and_is_in_the_navigation() -> None:
    import tomllib

    from reference_pages import PACKAGES

    listed = json.dumps(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    for package in PACKAGES:
        assert inspect.ismodule(importlib.import_module(package))
        assert f"reference/api/{package.replace('.', '-')}.md" in listed
    floors = {path.name for path in (ROOT / "src" / "vaescope").iterdir() if (path / "__init__.py").is_file()}
    assert floors - {"cli", "numerics", "integrations"} <= {package.rpartition(".")[2] for package in PACKAGES}
