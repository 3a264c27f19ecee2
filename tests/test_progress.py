"""Progress of long computations: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vaescope.progress import progress_bar, track


def test_nothing_is_printed_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("training", 10) as report:
        report(5, "loss 1.00")
    assert list(track(range(3), "checking", 3, long=True)) == [0, 1, 2]
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_bar_shows_title_count_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("training", 10, show=True) as report:
        report(5, "loss 1.00")
        report(10, "loss 0.50")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "training" in captured.err
    assert "10/10" in captured.err
    assert "loss 0.50" in captured.err


def test_the_total_may_be_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("fetching", None, show=True) as report:
        report(7)
    assert "7/?" in capsys.readouterr().err


def test_errors_pass_through_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="inside"), progress_bar("training", 10, show=True):
        raise RuntimeError("inside")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("long", [True, False])
def test_only_long_work_shows_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], long: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(track(range(9), "reading", 9, long=long)) == list(range(9))
    assert ("reading" in capsys.readouterr().err) is long


def test_steps_are_yielded_lazily() -> None:
    taken = []
    for step in track(iter("abc"), "letters", 3, long=False):
        taken.append(step)
        if step == "b":
            break
    assert taken == ["a", "b"]


def test_rich_is_not_loaded_unless_a_bar_is_shown() -> None:
    script = (
        "import sys; from vaescope.progress import track; "
        "list(track([1], 'x', 1, long=True)); print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
