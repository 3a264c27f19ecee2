"""Printed text cannot control the terminal."""

from __future__ import annotations

import ast
import errno
import io
import os
import sys
from pathlib import Path

import pytest

import vaescope
from vaescope.terminal import print_line, print_warning, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 語 █ 🙂", "plain ü 語 █ 🙂"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("over\rwritten\x08\x7f", "over\\rwritten\\x08\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        (os.fsdecode(b"caf\xe9"), "caf\\udce9"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_and_warnings_are_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\x1b[2J")
    print_warning(UserWarning("b\x1b[2J"), UserWarning, "file.py", 3)
    captured = capsys.readouterr()
    assert captured.out == "a\\x1b[2J\n"
    assert captured.err == "warning: b\\x1b[2J\n"


class FullStream(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_warning_that_cannot_be_printed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", FullStream())
    print_warning("a latent becomes passive")
    with pytest.raises(OSError, match="No space"):
        print_line("an answer", sys.stderr)


def test_all_other_modules_print_through_these_functions() -> None:
    root = Path(vaescope.__file__).parent
    printing = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "print"
    }
    # JSON has escapes of its own.
    assert printing == {"terminal.py", "cli/output.py"}
