"""Progress of long computations: a bar on a terminal, lines now and then in a log."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from vaescope import progress
from vaescope.progress import announce, duration, no_log_lines, progress_bar, track


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in a test, as pytest puts back its own stderr after the fixtures."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return found


def test_quick_work_prints_nothing_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("training", 10) as report:
        report(5, "loss 1.00")
    assert list(track(range(3), "checking", 3, long=True)) == [0, 1, 2]
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_log_has_a_line_for_every_tenth(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("training on digits", 1000, unit="steps") as report:
        for step in range(0, 1001, 10):
            report(step, "loss 9.5")
            clock.now += 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "training on digits: 100 of 1,000 steps (10%), loss 9.5, about 3 min left"
    assert [re.findall(r"\d+%", line)[0] for line in lines] == [f"{10 * tenth}%" for tenth in range(1, 11)]
    assert "left" not in lines[-1]


def test_a_slow_computation_has_a_line_every_30_s_and_a_fast_one_at_most_one_every_10_s(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("slow", 100_000) as report:
        for step in range(31):
            report(step)
            clock.now += 10
    assert len(capsys.readouterr().err.splitlines()) == 10
    with progress_bar("fast", 30) as report:
        for step in range(31):
            report(step)
            clock.now += 1
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_the_remaining_time_of_resumed_work_is_that_of_its_speed(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("training", 1000) as report:
        report(500)
        clock.now += 20
        report(600)
    assert capsys.readouterr().err == "training: 600 of 1,000 (60%), about 80 s left\n"


def test_a_total_may_be_unknown_or_change(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("fondue on digits", None, unit="steps") as report:
        clock.now += 40
        report(7, "period 1")
        clock.now += 40
        report(10, "period 2", 100)
        clock.now += 40
        report(20, "period 2", 100)
    assert capsys.readouterr().err.splitlines() == [
        "fondue on digits: 7 steps, period 1",
        "fondue on digits: 10 of 100 steps (10%), period 2",
        "fondue on digits: 20 of 100 steps (20%), period 2, about 5 min left",
    ]


def test_output_for_programs_has_no_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with no_log_lines(), progress_bar("training", 2) as report:
        clock.now += 100
        report(1)
        announce("checking")
    with progress_bar("training", 2, show=False) as report:
        clock.now += 100
        report(1)
    assert capsys.readouterr().err == ""
    announce("checking")
    assert capsys.readouterr().err == "checking\n"


def test_a_bar_shows_title_share_and_words_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress_bar("training on digits", 10) as report:
        report(5, "loss 1.00")
    line = next(line for line in terminal.shown.splitlines() if "50%" in line)
    assert line.startswith("training on digits ")
    assert "loss 1.00" in line
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased


def test_a_bar_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress_bar("training 12 models on dsprites-small", 10_000) as report:
        report(5000, "loss 123.4 to 4321, 10 to 12 active, 0 to 3 mixed, 0 to 4 passive")
    assert max(len(line) for line in re.split(r"[\r\n]", terminal.shown)) <= 80


def test_a_bar_of_unknown_length_has_no_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress_bar("fondue on digits", None, unit="steps") as report:
        report(15_000, "period 2 of at most 10")
    assert "15,000 steps" in terminal.shown
    assert "?" not in terminal.shown


def test_bars_inside_of_a_bar_are_lines_of_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with progress_bar("report", None) as report:
        report(0, "drawing")
        for step in track(range(4), "comparing layers", 4, long=True):
            assert step < 4
        report(1, "writing")
    assert "comparing layers" in terminal.shown
    assert terminal.getvalue().count("\x1b[?25l") == 1  # the cursor is hidden once: one display
    with progress_bar("next", 1) as report:
        report(1)
    assert terminal.getvalue().count("\x1b[?25l") == 2


def test_errors_pass_through_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(RuntimeError, match="inside"), progress_bar("training", 10, show=True):
        raise RuntimeError("inside")
    with progress_bar("afterwards", 10) as report:
        report(10)
    assert "afterwards" in terminal.shown


@pytest.mark.parametrize("long", [True, False])
def test_only_long_work_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, long: bool) -> None:
    terminal = on_terminal(monkeypatch)
    assert list(track(range(9), "reading", 9, long=long)) == list(range(9))
    assert ("reading" in terminal.shown) is long


def test_steps_are_yielded_lazily() -> None:
    taken = []
    for step in track(iter("abc"), "letters", 3, long=False):
        taken.append(step)
        if step == "b":
            break
    assert taken == ["a", "b"]


def test_times_have_units() -> None:
    assert [duration(seconds) for seconds in (0.4, 119, 150, 9000)] == ["0 s", "119 s", "2 min", "2.5 h"]


def test_rich_is_not_loaded_unless_a_bar_is_shown() -> None:
    script = (
        "import sys; from vaescope.progress import track; "
        "list(track([1], 'x', 1, long=True)); print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
