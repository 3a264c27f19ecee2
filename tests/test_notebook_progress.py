"""Progress bars of notebooks, with a display that records what it shows."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from vaescope import notebook_progress
from vaescope.notebook_progress import in_notebook
from vaescope.progress import progress_bar


class ZMQInteractiveShell: ...


class TerminalInteractiveShell: ...


class Shown:
    """The only display of the cell, with every state that it showed."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def update(self, html: str) -> None:
        self.states.append(html)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Shown]:
    displays: list[Shown] = []

    def display(html: str, display_id: bool) -> Shown:
        assert display_id
        displays.append(Shown())
        displays[-1].update(html)
        return displays[-1]

    package: Any = ModuleType("IPython")
    package.get_ipython = ZMQInteractiveShell
    module: Any = ModuleType("IPython.display")
    module.HTML, module.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(notebook_progress, "UPDATE_SECONDS", 0.0)
    return displays


def test_one_bar_is_updated_in_place(shown: list[Shown], capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("training <b>", 10) as report:
        report(5, "loss 1.00")
        report(10, "loss 0.50")
    (bar,) = shown
    assert "training &lt;b&gt;" in bar.states[0]
    assert 'value="5" max="10"' in bar.states[1]
    assert "5 / 10 · loss 1.00" in bar.states[1]
    assert "10 / 10 · loss 0.50 · " in bar.states[-1]
    assert bar.states[-1].count("<progress") == 1
    assert capsys.readouterr().err == ""


def test_the_end_of_an_unknown_total_is_open(shown: list[Shown]) -> None:
    with progress_bar("reading", None) as report:
        report(1200)
    assert "value=" not in shown[0].states[1]
    assert "1,200" in shown[0].states[1]
    assert 'value="1200" max="1200"' in shown[0].states[-1]


def test_a_bar_says_that_the_work_stopped(shown: list[Shown]) -> None:
    def interrupted() -> None:
        with progress_bar("training", 10) as report:
            report(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "3 / 10 · stopped" in shown[0].states[-1]


def test_frequent_reports_are_not_all_shown(shown: list[Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_progress, "UPDATE_SECONDS", 60.0)
    with progress_bar("training", 1000) as report:
        for done in range(1000):
            report(done)
    assert len(shown[0].states) == 2


def test_no_bar_is_shown_on_request(shown: list[Shown]) -> None:
    with progress_bar("training", 10, show=False) as report:
        report(5)
    assert shown == []


def test_only_kernels_are_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    package: Any = ModuleType("IPython")
    monkeypatch.setitem(sys.modules, "IPython", package)
    for shell, expected in ((ZMQInteractiveShell, True), (TerminalInteractiveShell, False), (lambda: None, False)):
        package.get_ipython = shell
        assert in_notebook() is expected
