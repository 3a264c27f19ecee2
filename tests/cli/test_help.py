"""Help of every command: no text is lost, brackets are shown as written, and it fits 80 columns."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from vaescope import cli

RUNNER = CliRunner()


def commands(group: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_group(cli.app)))


def shown(path: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", width)
    result = RUNNER.invoke(cli.app, [*path, "--help"])
    assert result.exit_code == 0, result.output
    return result.output


def words(text: str) -> str:
    return re.sub(r"[\s│]+", " ", text)


def written(command: object) -> list[str]:
    """The texts of a command as they are written in the code, without the escapes that rich needs."""
    texts = [getattr(command, "help", None) or "", getattr(command, "epilog", None) or ""]
    texts += [getattr(parameter, "help", None) or "" for parameter in getattr(command, "params", [])]
    return [re.sub(r"\\(?=\[)", "", inspect.cleandoc(text)).replace("\b", "") for text in texts]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_text_is_lost(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    found = words(shown(path, 300, monkeypatch))
    for text in written(COMMANDS[path]):
        for paragraph in text.split("\n\n"):
            assert words(paragraph).strip() in found


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_without_holes(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(path, 80, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    found = words(text)
    assert not re.search(r", ,|, \.(?![\w.])|\(\)|: \.|''|``|\\\[", found)
    for bracket in {one for text in written(COMMANDS[path]) for one in re.findall(r"\[[^\]]*\]", text)}:
        assert bracket in found


def test_the_tables_of_a_sweep_and_the_extra_of_an_export_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "[data], [model], [objective], [training], [grid], [measure]" in words(shown(("sweep",), 80, monkeypatch))
    assert "'vaescope[onnx]'" in words(shown(("export",), 80, monkeypatch))


def test_lines_of_variants_are_indented_below_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(("fit",), 80, monkeypatch).splitlines()
    start = lines.index(next(line for line in lines if line.strip() == "Objective"))
    block = list(textwrap.dedent("\n".join(lines[start + 1 : start + 12])).splitlines())
    assert all(re.match(r"[a-z_]+ {2,}\S|  {8,}\S|\s*$|[A-Z]", line) for line in block), block
