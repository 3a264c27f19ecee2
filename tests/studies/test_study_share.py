"""A part of a study, to save time: shorter training, fewer data sets, and notes that say so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.runs import Run
from vaescope.studies import STUDIES, Cell, Findings, Measurement, Study, StudyContext, StudySettings, reproduce
from vaescope.studies.bonheme.search import subjects
from vaescope.sweeps.jobs import make_jobs
from vaescope.sweeps.specification import Sweep

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def sweep(data: Any = "digits", **length: float) -> Sweep:
    return Sweep(data, {"net": NET, "batch": 16, **length}, {"latents": 2}, grid={"seed": [0, 1]})


def ids(of: Sweep) -> list[str]:
    return [run for job in make_jobs(of) for run in job.ids]


def steps_of(run: Run, data: Dataset, device: str) -> int:
    return run.configuration.plan.steps


def steps_trained(context: StudyContext) -> Findings:
    runs = context.runs(Sweep("digits", {"net": NET, "steps": 40}, {"latents": 2}))
    (steps,) = context.measured(runs, Measurement("steps", steps_of))
    return Findings((Cell({}, steps),), notes=("of the study itself",))


def context(**settings: Any) -> StudyContext:
    return StudyContext(StudySettings(**settings))


@pytest.mark.parametrize(
    ("whole", "share", "by_hand"),
    [
        ({"steps": 40}, 0.1, {"steps": 4}),
        ({"steps": 36}, 0.1, {"steps": 4}),
        ({"steps": 3}, 0.1, {"steps": 1}),
        ({"epochs": 2}, 0.2, {"epochs": 0.4}),
        ({"epochs": 2}, 0.2, {"steps": 40}),  # 101 batches make an epoch
    ],
)
def test_a_share_trains_the_runs_of_a_shorter_sweep(
    whole: dict[str, float], share: float, by_hand: dict[str, float]
) -> None:
    cut = ids(context(share=share).shortened(sweep(**whole)))
    assert cut == ids(sweep(**by_hand))
    assert not set(cut) & set(ids(sweep(**whole)))


@pytest.mark.parametrize("whole", [{"steps": 40}, {"epochs": 2}])
@pytest.mark.parametrize("share", [1, 1.0, {"digits": 1.0}, {"mnist": 0.1}])
def test_a_share_of_1_trains_the_runs_of_the_study(whole: dict[str, float], share: Any) -> None:
    assert ids(context(share=share).shortened(sweep(**whole))) == ids(sweep(**whole))


def test_shares_by_name_shorten_training_only_on_those_data() -> None:
    some = context(share={"digits": 0.5, "pinwheel": 0.1})
    sources = ("digits", {"name": "digits"}, {"name": "pinwheel", "items": 99}, "mnist", {"name": "mnist"})
    cut = [some.shortened(sweep(source, steps=40)).settings["steps"] for source in sources]
    assert cut == [20, 20, 4, 40, 40]


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "share must be a finite number above 0, got 0"),
        (-0.5, "share must be a finite number above 0, got -0.5"),
        (math.nan, "share must be a finite number above 0, got nan"),
        ("0.5", "share must be a finite number above 0, got '0.5'"),
        (1.5, "share must be at most 1, all of the study's training, got 1.5"),
        ({"digits": 0.5, "mnist": 1.5}, "share must be at most 1, all of the study's training, got 1.5"),
        ({"digits": 0.5, "mnist": math.nan}, "share must be a finite number above 0, got nan"),
    ],
)
def test_an_invalid_share_is_refused(share: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        StudySettings(share=share)


@pytest.mark.parametrize(
    ("share", "steps", "said"),
    [
        (1.0, 40, "quick"),
        (0.125, 5, "quick (of the training 0.125 on digits)"),
        ({"digits": 0.5, "mnist": 0.1}, 20, "quick (of the training 0.5 on digits)"),
        ({"digits": 1.0}, 40, "quick"),
    ],
)
def test_a_reproduction_trains_its_share_and_says_so_first(
    share: Any, steps: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study("some-table1", "Some et al., Table 1", "How many steps?", "", steps_trained)
    monkeypatch.setitem(STUDIES, study.name, study)
    found = reproduce(study.name, share=share, runs=tmp_path, engine_options={"workers": 1}, progress=False)
    assert [cell.value for cell in found.findings.cells] == [steps]
    assert found.summary() == f"Some et al., Table 1, {said}: no claim was stated"


@pytest.mark.parametrize("given", [{"share": {"digit": 0.5}}, {"data": ("digit",)}])
def test_unknown_names_of_data_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match=r"data must be one of .*; got 'digit'\. Did you mean 'digits'\?"):
        StudySettings(**given)


def test_training_on_data_that_were_not_requested_is_refused(tmp_path: Path) -> None:
    said = "data must name pinwheel, which this study is trained on, got digits. Name it, or leave data out."
    with pytest.raises(ConfigurationError, match=said):
        reproduce("mathieu-figure3", data=("digits",), runs=tmp_path, progress=False)
    with pytest.raises(ConfigurationError, match=r"data must name some that bonheme-table8\.1 is about\. left out: "):
        reproduce("bonheme-table8.1", data=("cars3d",), runs=tmp_path, progress=False)
    with pytest.raises(
        ConfigurationError, match=r"some of the data must be there that .*4 is about\. data not found: "
    ):
        reproduce("bonheme-table8.4", "paper", runs=tmp_path, progress=False)
    with pytest.raises(ConfigurationError, match=r"data must be a list of names, got 'mnist'\. Write \['mnist'\]\."):
        StudySettings(data="mnist")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_reproduction_has_its_command_line(tmp_path: Path) -> None:
    share = {"mnist": 1 / 3, "digits": 1.0}
    found = reproduce("rolinek-toy", runs=tmp_path, progress=False, seeds=3, share=share)
    rest = "--scale quick --seeds 3 --share mnist=0.3333333333333333"
    assert found.plain()["made_by"] == [f"vaescope reproduce rolinek-toy {rest}"]
    some = StudySettings(seeds=3, share=share, data=("mnist", "digits"))
    assert some.command("some-table1") == f"vaescope reproduce some-table1 {rest} --data mnist --data digits"
    assert (
        StudySettings("paper", share=0.1).command("some-table1")
        == "vaescope reproduce some-table1 --scale paper --share 0.1"
    )


def test_without_training_there_is_no_note(tmp_path: Path) -> None:
    assert "of the training" not in reproduce("rolinek-toy", share=0.5, runs=tmp_path, progress=False).summary()


def test_data_that_were_not_requested_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("vaescope.studies.context.open_dataset", opened.append)
    some = context(data=("digits", "celeba"))
    for name in ("mnist", "digits", "dsprites"):
        some.open(name)
    assert opened == ["digits"]
    assert some.notes == [
        f"left out: {name}, of the data only digits, celeba being asked for." for name in ("mnist", "dsprites")
    ]


def test_a_study_of_several_data_sets_keeps_the_requested_ones() -> None:
    some = context(data=("digits",))
    assert [one.label for one in subjects(context())] == ["Gaussian of 3", "digits", "Gaussian of 6"]
    assert [one.label for one in subjects(some)] == ["digits"]
    assert [note.startswith("left out: gaussian-manifold, ") for note in some.notes].count(True) == 1
