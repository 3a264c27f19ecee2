"""Diagnoses of runs, of codes in every form, and of what cannot be diagnosed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.diagnosis.cards import GOOD, NOTE
from vaescope.diagnosis.diagnose import diagnose
from vaescope.errors import ConfigurationError, DataError, RunError
from vaescope.runs import Run, fit
from vaescope.runs.record import Provenance

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
QUICK: dict[str, Any] = {"net": NET, "steps": 4, "batch": 8, "device": "cpu"}
GENERATOR = np.random.default_rng(0)
ITEMS = GENERATOR.standard_normal((60, 4)).astype(np.float32)
# Numbers that float16 holds exactly, so that every float type holds the same ones.
MEAN = (GENERATOR.integers(-300, 300, (50, 3)) / 128 * [1, 1, 0]).astype(np.float32)
VARIANCE = np.tile(np.array([1 / 64, 1 / 2, 1], np.float32), (50, 1))


def titled(found: Any, title: str) -> Any:
    return next(card for card in found.cards if card.title == title)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    file = folder / "items.csv"
    np.savetxt(file, ITEMS, delimiter=",")
    return file


@pytest.fixture(scope="module")
def run(folder: Path, source: Path) -> Run:
    return fit(source, latents=2, runs=folder, **QUICK)


def test_a_run_can_be_given_by_itself_its_folder_or_the_start_of_its_id(run: Run, folder: Path) -> None:
    wanted = diagnose(run)
    assert wanted.name == run.id
    assert len(wanted.rows()) == 2
    for subject, runs in ((run.path, None), (str(run.path), None), (run.id, folder), (run.id[:6], str(folder))):
        assert diagnose(subject, runs=runs).plain() == wanted.plain()


def test_the_types_of_a_run_equal_those_of_its_codes(run: Run, source: Path) -> None:
    assert diagnose(run).types.types == vs.variable_types(vs.encode(run.model, source)).types


def test_items_limits_the_encoded_items_and_the_seed_chooses_them(run: Run) -> None:
    counts = [diagnose(run, items=items).types.statistics.count for items in (2, 17, 60, 1000)]
    assert counts == [2, 17, 60, 60]
    one, again, other = (diagnose(run, items=17, seed=seed).rows() for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("items", [1, 0, 2.5, "many"])
def test_items_must_be_at_least_two(items: Any, run: Run) -> None:
    with pytest.raises(ConfigurationError, match=r"items.*2"):
        diagnose(run, items=items)


@pytest.mark.filterwarnings("ignore::vaescope.errors.CollapseWarning")
def test_a_collapsed_run_reports_the_step_and_the_strength(folder: Path) -> None:
    settings = {**QUICK, "steps": 600, "learning_rate": 0.02, "monitor_every": 100, "log_every": 20}
    run = fit(ITEMS, latents=3, objective=vs.objectives.Beta(50.0), runs=folder, **settings)
    found = titled(diagnose(run, ITEMS), "Posterior collapse")
    assert found.status == "bad"
    assert "since step" in found.meaning
    assert "(beta 50)" in found.meaning
    assert all(row["passive_since"] in range(100, 700, 100) for row in found.rows)


def test_a_run_with_a_non_gaussian_prior_gets_a_warning(folder: Path) -> None:
    found = diagnose(fit("digits", latents=2, prior="sparse", runs=folder, **QUICK))
    (card,) = [card for card in found.cards if card.title == "Prior"]
    assert card.status == "warning"
    assert "sparse" in card.meaning
    assert "N(0, 1)" in card.meaning


def test_an_autoencoder_has_nothing_to_collapse(folder: Path) -> None:
    run = fit(ITEMS, latents=2, model="autoencoder", runs=folder, **QUICK)
    found = diagnose(run, ITEMS)
    assert titled(found, "Posterior collapse").status == "not applicable"
    json.dumps(found.plain(), allow_nan=False)


def test_a_run_on_an_array_is_diagnosed_without_passing_the_array_again(folder: Path) -> None:
    run = fit(ITEMS, latents=1, runs=folder, **QUICK)
    assert diagnose(run).rows() == diagnose(run, ITEMS).rows()


def test_changed_or_missing_data_raise_an_error(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    np.savetxt(file, ITEMS, delimiter=",")
    run = fit(file, latents=1, runs=tmp_path / "runs", **QUICK)
    np.savetxt(file, ITEMS + 1, delimiter=",")
    with pytest.raises(DataError, match=r"items.csv.*changed"):
        diagnose(run)
    assert len(diagnose(run, file).rows()) == 1
    file.unlink()
    with pytest.raises(DataError, match=r"items.csv"):
        diagnose(run)


def test_data_of_another_shape_raise_an_error(run: Run) -> None:
    with pytest.raises(DataError, match=r"\(4,\).*\(3,\)"):
        diagnose(run, ITEMS[:, :3])


def test_an_incomplete_run_raises_an_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="complete"):
        diagnose(Run.create(tmp_path, run.configuration, Provenance(source=run.provenance.source)))


@pytest.mark.parametrize("subject", ["", "zzz", "/nowhere/at/all", Path("nowhere")])
def test_an_unknown_run_raises_an_error(subject: Any, folder: Path) -> None:
    with pytest.raises(RunError, match=re.escape(str(subject) or "No run")):
        diagnose(subject, runs=folder)


def test_a_damaged_run_raises_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run.json"):
        diagnose(tmp_path)


@pytest.mark.parametrize(("data", "targets"), [("digits", {"label"}), ("dsprites-small", {"factor"})])
def test_factors_and_labels_are_predicted_on_request(data: str, targets: set[str], tmp_path: Path) -> None:
    run = fit(data, latents=2, runs=tmp_path, **QUICK)
    assert "Prediction from codes" not in {card.title for card in diagnose(run, items=150).cards}
    found = titled(diagnose(run, items=150, predict=True), "Prediction from codes")
    assert found.status in (GOOD, NOTE)
    assert {row["target"].split()[0] for row in found.rows} == targets


def test_prediction_is_good_from_informative_codes_and_a_note_from_noise(tmp_path: Path) -> None:
    labels = np.arange(300) % 2
    noise = np.random.default_rng(0).standard_normal((300, 1))
    for name, mean, status in (("known", labels[:, None] * 2.0 - 1, GOOD), ("noise", noise, NOTE)):
        np.savez(tmp_path / f"{name}.npz", mean=mean, variance=np.full((300, 1), 0.01), labels=labels)
        found = titled(diagnose(tmp_path / f"{name}.npz", predict=True), "Prediction from codes")
        assert found.status == status
        assert ("no better than chance" in found.advice) == (status == NOTE)


def test_prediction_needs_factors_or_labels() -> None:
    with pytest.raises(DataError, match="predict needs factors or labels"):
        diagnose((MEAN, VARIANCE), predict=True)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_the_same_numbers_give_the_same_diagnosis_in_every_type(kind: Any) -> None:
    wanted = diagnose((MEAN, VARIANCE)).plain()
    arrays = MEAN.astype(kind), VARIANCE.astype(kind)
    assert diagnose(arrays).plain() == wanted
    assert diagnose(tuple(torch.from_numpy(array) for array in arrays)).plain() == wanted


def test_a_function_with_data_is_diagnosed_and_named() -> None:
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, :2], torch.full_like(x[:, 2:], 0.01)

    found = diagnose(halves, ITEMS, items=20)
    assert (found.name, found.types.types, found.types.statistics.count) == ("halves", ("active", "active"), 20)


def test_a_diagnosis_is_valid_json_for_any_numbers() -> None:
    for variance in (VARIANCE, 0 * VARIANCE, np.where(VARIANCE == 1, 0, VARIANCE)):
        plain = diagnose((MEAN, variance)).plain()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert set(plain) == {"name", "verdict", "headline", "well_determined", "latents", "cards", "metrics"}
        assert len(plain["latents"]) == 3


def test_alpha_moves_the_threshold() -> None:
    assert diagnose((MEAN, VARIANCE)).types.types == ("active", "mixed", "passive")
    assert diagnose((MEAN, VARIANCE), alpha=0.01).types.types == ("mixed", "mixed", "passive")


LOST = np.where(np.arange(50)[:, None] == 7, np.nan, MEAN)
WRONG: dict[str, tuple[Any, str]] = {
    "log-variance": ((MEAN, np.log(VARIANCE)), "log-variance.*exponential"),
    "NaN": ((LOST, VARIANCE), "nan.*item 7, latent 0"),
    "one example": ((MEAN[:1], VARIANCE[:1]), "at least 2.*1"),
    "no example": ((MEAN[:0], VARIANCE[:0]), "at least one"),
    "no latent": ((MEAN[:, :0], VARIANCE[:, :0]), "at least one latent"),
    "infinite variance": ((MEAN, VARIANCE * np.float32(np.inf)), "variance.*finite"),
}


@pytest.mark.parametrize(("subject", "message"), WRONG.values(), ids=WRONG)
def test_wrong_codes_raise_an_error_in_one_line(subject: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        diagnose(subject)
    assert "\n" not in str(caught.value)
