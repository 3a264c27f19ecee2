"""Steps are compiled where that pays back within the plan, or as asked; the choice is recorded and changes no id."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.runs import FitOptions, fit_many
from vaescope.runs.in_memory import fit_in_memory
from vaescope.sizing import SearchOptions
from vaescope.training import Member, Plan, Trainer
from vaescope.training.compilation import BREAK_EVEN, break_even_steps, choose_compilation

DATA = np.random.default_rng(0).random((120, 6), dtype=np.float32)
NET: dict[str, Any] = {"name": "mlp", "encoder_widths": [4], "decoder_widths": [4]}
SMALL: dict[str, Any] = {"net": NET, "steps": 4, "batch": 8, "device": "cpu", "progress": False}


def test_break_even_is_as_measured_and_between_a_power_of_the_members() -> None:
    assert [break_even_steps(members) for members in (1, 32)] == [30_000, 3_000]
    steps = [break_even_steps(members) for members in range(1, 65)]
    assert steps == sorted(steps, reverse=True)
    assert set(steps[32:]) == {3_000}
    for fewer, more in ((1, 2), (2, 4), (4, 8), (8, 16), (16, 32)):  # twice as many members: the same share
        assert break_even_steps(more) / break_even_steps(fewer) == pytest.approx(10 ** (-1 / 5), rel=1e-3)


@pytest.mark.parametrize("members", [1, 2, 7, 8, 31, 32, 33, 64])
def test_a_gpu_compiles_from_the_break_even_on(members: int) -> None:
    needed = break_even_steps(members)
    for steps in (1, needed - 1, needed, needed + 1, 10**9):
        choice = choose_compilation("cuda", members, steps)
        assert choice.compiled is (steps >= needed)
        for number in (steps, members, needed):
            assert str(number) in choice.reason


@pytest.mark.parametrize(("members", "steps", "asked"), list(product((1, 32), (1, 10**9), (True, False))))
def test_what_is_asked_decides_on_a_gpu(members: int, steps: int, asked: bool) -> None:
    choice = choose_compilation("cuda", members, steps, asked)
    assert choice.compiled is asked
    assert f"compile={asked}" in choice.reason


@pytest.mark.parametrize(
    ("device", "obstacle"), [("cpu", ""), ("mps", ""), ("cpu", "it draws"), ("cuda", "the model draws random numbers")]
)
def test_without_a_program_nothing_is_compiled(device: str, obstacle: str) -> None:
    for members, steps, asked in product((1, 32), (1, 10**9), (None, False)):
        choice = choose_compilation(device, members, steps, asked, obstacle)
        assert not choice.compiled
        assert choice.reason == (obstacle if device == "cuda" else f"device {device!r} runs steps without a compiler")
    with pytest.raises(ConfigurationError, match="compile=True needs a CUDA device"):
        choose_compilation(device, 1, 1, True, obstacle)


def test_the_choice_depends_on_its_arguments_alone() -> None:
    choices = [choose_compilation("cuda", members, steps) for members in range(1, 65) for steps in (2_999, 30_000)]
    Trainer(Architecture(net=MLP((4,), (4,))), [Member(2)], Plan(4, 8), open_dataset(DATA)).advance()
    again = [choose_compilation("cuda", members, steps) for members in range(1, 65) for steps in (2_999, 30_000)]
    assert choices == again
    assert BREAK_EVEN == ((1, 30_000), (32, 3_000))


def test_a_run_records_the_choice_which_is_no_part_of_its_id(tmp_path: Path) -> None:
    runs = [vs.fit(DATA, 2, compile=asked, runs=tmp_path / str(asked), **SMALL) for asked in (None, False)]
    assert runs[0].id == runs[1].id
    for run in runs:
        compilation = run.record.provenance.compilation
        assert compilation is not None
        assert (compilation.compiled, "'cpu'" in compilation.reason) == (False, True)
        assert "compil" not in json.dumps(run.configuration.plain())
        for name, value in run.model.state_dict().items():
            assert torch.equal(value, runs[0].model.state_dict()[name])
    with pytest.raises(ConfigurationError, match="compile=True needs a CUDA device"):
        vs.fit(DATA, 2, compile=True, runs=tmp_path / "asked", **SMALL)
    assert not list((tmp_path / "asked").glob("*/run.json"))


def test_every_way_to_train_takes_the_option(tmp_path: Path) -> None:
    options = FitOptions(compile=True, runs=tmp_path, **SMALL)
    for train in (lambda: fit_many(DATA, [Member(2)], options), lambda: fit_in_memory(DATA, Member(2), options)):
        with pytest.raises(ConfigurationError, match="compile=True needs a CUDA device"):
            train()
    search = {"net": NET, "batch": 8, "period": 4, "device": "cpu", "runs": None, "progress": False}
    with pytest.raises(ConfigurationError, match="compile=True needs a CUDA device"):
        vs.fondue(DATA, init=2, largest=3, compile=True, **search)
    with pytest.raises(ConfigurationError, match="True, False or None, got 'yes'"):
        FitOptions(compile="yes")


def test_a_search_says_how_its_steps_ran() -> None:
    search = {"net": NET, "batch": 8, "period": 4, "max_periods": 2, "device": "cpu", "runs": None, "progress": False}
    found = vs.fondue(DATA, init=2, largest=3, **search)
    assert found.settings["compilation"] == {
        "compiled": False,
        "reason": "device 'cpu' runs steps without a compiler",
    }


@pytest.mark.parametrize(("max_periods", "planned"), [(1, 20), (2, 40), (10, 40)])
def test_a_search_plans_with_the_rounds_that_it_is_sure_to_train(max_periods: int, planned: int) -> None:
    setup = SearchOptions(net=NET, period=10, max_periods=max_periods, device="cpu").setup(open_dataset(DATA))
    assert setup.planned_steps == planned
