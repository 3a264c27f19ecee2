"""More latents than the data have dimensions, where that is asked for (Rolinek, table 1, second column)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import vaescope as vs
from vaescope.cli import app
from vaescope.errors import ConfigurationError, LatentError
from vaescope.models import Architecture
from vaescope.sweeps.toml import read_sweep

ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
SHORT: dict[str, Any] = {"net": "affine", "steps": 4, "batch": 16, "progress": False, "device": "cpu"}
SWEEP = """\
[data]
name = "synthetic-linear"
items = 60
[model]
net = "affine"
overcomplete = true
[training]
steps = 4
[grid]
latents = [2, 10]
"""


def test_a_model_may_have_more_latents_than_dimensions_on_request(tmp_path: Path) -> None:
    with pytest.raises(LatentError, match=r"between 1 and 3 .* got 10.*overcomplete=True"):
        vs.fit(ROWS, 10, runs=tmp_path, **SHORT)
    with pytest.raises(LatentError, match=r"between 1 and 3 .* got 0\. Choose a number in this range\.$"):
        vs.fit(ROWS, 0, runs=tmp_path, **SHORT)
    run = vs.fit(ROWS, 10, overcomplete=True, runs=tmp_path, **SHORT)
    opened = vs.load(run.id, tmp_path)
    assert opened.configuration.id == run.id
    assert opened.configuration.architecture.overcomplete
    assert opened.encode(ROWS).mean.shape == (60, 10)
    assert opened.reconstruct(ROWS).shape == (60, 3)
    listed = CliRunner().invoke(app, ["runs", "--runs", str(tmp_path), "--json"])
    assert json.loads(listed.stdout)[0]["overcomplete"] is True


def test_the_default_leaves_no_trace_in_a_configuration(tmp_path: Path) -> None:
    described = Architecture(net="affine", likelihood="gaussian")
    assert "overcomplete" not in described.plain()
    assert Architecture(**described.plain()) == described
    wide = Architecture(net="affine", likelihood="gaussian", overcomplete=True)
    assert Architecture(**wide.plain()) == wide != described
    run = vs.fit(ROWS, 2, overcomplete=False, runs=tmp_path, **SHORT)
    assert vs.fit(ROWS, 2, runs=tmp_path, **SHORT).id == run.id
    assert vs.fit(ROWS, 2, overcomplete=True, runs=tmp_path, **SHORT).id != run.id


def test_training_continues_from_such_a_run_without_asking_again(tmp_path: Path) -> None:
    run = vs.fit(ROWS, 5, overcomplete=True, runs=tmp_path, **SHORT)
    after = vs.fit(ROWS, start=run, runs=tmp_path, **SHORT)
    assert after.configuration.member.latents == 5
    longer = vs.resume(run.id, 8, data=ROWS, runs=tmp_path, progress=False)
    assert longer.configuration.architecture.overcomplete


def test_files_of_sweeps_and_the_command_line_can_ask_for_it(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SWEEP)
    assert read_sweep(file).settings["overcomplete"] is True
    file.write_text(SWEEP.replace("overcomplete = true\n", ""))
    with pytest.raises(ConfigurationError, match=r"between 1 and 3"):
        read_sweep(file)
    table = tmp_path / "rows.npy"
    np.save(table, ROWS)
    words = ["fit", str(table), "--latents", "4", "--net", "affine", "--steps", "4", "--runs", str(tmp_path / "runs")]
    assert isinstance(CliRunner().invoke(app, words).exception, LatentError)
    result = CliRunner().invoke(app, [*words, "--overcomplete"])
    assert result.exit_code == 0, result.output
    assert "overcomplete" in result.output


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_a_value_that_is_not_a_truth_value_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="overcomplete must be True or False"):
        Architecture(overcomplete=wrong)
    with pytest.raises(ConfigurationError, match="overcomplete must be True or False"):
        vs.FitOptions(overcomplete=wrong)


def test_latents_must_still_be_a_whole_number_of_at_least_1() -> None:
    for wrong in (0, 2.0, True):
        with pytest.raises(LatentError, match="at least 1"):
            Architecture(net="affine", likelihood="gaussian", overcomplete=True).form((3,), wrong)
