"""Fixtures of the command line's tests."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from vaescope import cli


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must fail with exit code 2, one line on stderr and nothing on stdout; returns the line."""

    def call(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["vaescope", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        assert (end.value.code, captured.out) == (2, "")
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return call


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must succeed and write nothing to the descriptor of stderr; returns what stdout's received."""

    def call(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["vaescope", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capfd.readouterr()
        assert (end.value.code or 0, captured.err) == (0, "")
        return captured.out

    return call
