"""A folder of runs: find, list, summarise and query."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vaescope.errors import ConfigurationError, RunError
from vaescope.models import Architecture
from vaescope.objectives import Beta
from vaescope.runs import Configuration, FitOptions, Run, Split, Store, fit_many, summary
from vaescope.training import Member, Plan

NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("it's a store")
    data = np.random.default_rng(0).normal(size=(40, 5))
    members = [Member(latents, Beta(beta)) for latents in (1, 2, 3) for beta in (1.0, 4.0)] + [
        Member(2, seed=seed) for seed in range(1, 30)
    ]
    fit_many(
        data, members, FitOptions(net=NET, steps=4, batch=8, log_every=2, evaluate_every=4, runs=folder, device="cpu")
    )
    return Store(folder)


def test_every_run_is_listed_by_id(store: Store) -> None:
    ids = [run.id for run in store.runs()]
    assert len(ids) == 35
    assert ids == sorted(ids)


def test_a_run_is_found_by_id_by_the_start_of_its_id_and_by_folder(store: Store) -> None:
    first = next(iter(store.runs()))
    others = [run.id for run in store.runs() if run != first]
    length = next(n for n in range(1, 13) if not any(other.startswith(first.id[:n]) for other in others))
    for identity in (first.id, first.id[:length], str(first.path)):
        assert store.find(identity) == first


def test_an_ambiguous_id_lists_the_candidates(store: Store) -> None:
    ids = [run.id for run in store.runs()]
    letter = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)
    found = [one for one in ids if one[0] == letter]
    with pytest.raises(RunError, match=rf"{len(found)} runs in .*{', '.join(found)}"):
        store.find(letter)


@pytest.mark.parametrize("identity", ["", "zzz", "/nowhere/at/all", "../..", "*", "[", "**/x", "run.json"])
def test_an_unknown_run_is_named(identity: str, store: Store) -> None:
    with pytest.raises(RunError, match=r"No run in"):
        store.find(identity)


def test_a_summary_is_one_flat_row_of_settings_and_last_values(store: Store) -> None:
    run = next(run for run in store.runs() if run.configuration.member == Member(3, Beta(4.0)))
    row = summary(run)
    expected = {
        "id": run.id,
        "status": "complete",
        "data": "array",
        "items": 40,
        "model": "vae",
        "net": "mlp",
        "likelihood": "gaussian",
        "latents": 3,
        "objective": "beta",
        "beta": 4.0,
        "seed": 0,
        "learning_rate": 1e-4,
        "batch": 8,
        "step": 4,
        "steps": 4,
    }
    assert expected.items() <= row.items()
    assert row["train_loss"] == run.last("train")["loss"]
    assert row["test_rate"] == run.last("test")["rate"]
    assert all(isinstance(value, str | int | float) for value in row.values())


def test_runs_and_their_histories_can_be_queried(store: Store) -> None:
    names, rows = store.query("SELECT latents, count(*) AS number FROM runs GROUP BY latents ORDER BY latents")
    assert names == ["latents", "number"]
    assert rows == [(1, 2), (2, 31), (3, 2)]
    _, rows = store.query("SELECT DISTINCT step, split FROM history ORDER BY step, split")
    assert rows == [(2, "train"), (4, "probe"), (4, "test"), (4, "train")]
    _, ((loss, last),) = store.query(
        "SELECT h.loss, r.test_loss FROM history h JOIN runs r ON h.run = r.id "
        "WHERE h.split = 'test' AND r.latents = 1 AND r.beta = 1"
    )
    assert loss == pytest.approx(last)


@pytest.mark.parametrize(
    "sql", ["SELEC id FROM runs", "SELECT colour FROM runs", "SELECT * FROM walks", "", "SELECT 1/", "SELECT 'a"]
)
def test_wrong_sql_is_one_sentence(sql: str, store: Store) -> None:
    with pytest.raises(ConfigurationError, match="the SQL must be") as caught:
        store.query(sql)
    assert "\n" not in str(caught.value)


def test_a_history_without_rows_can_be_queried(tmp_path: Path) -> None:
    data = {"name": "none", "items": 4, "shape": [5], "fingerprint": "0"}
    configuration = Configuration(data, Split(), Architecture(net="mlp", likelihood="gaussian"), Plan(3), Member(2))
    (tmp_path / configuration.id).mkdir()
    Run.create(tmp_path / configuration.id, configuration)
    assert Store(tmp_path).query("SELECT run, step, split, loss FROM history")[1] == []
    assert Store(tmp_path).query("SELECT step, status FROM runs")[1] == [(0, "training")]


def test_an_empty_folder_has_no_runs(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "not there"):
        assert list(Store(folder).runs()) == []
        with pytest.raises(RunError, match=r"no runs"):
            Store(folder).query("SELECT 1")
        with pytest.raises(RunError, match="No run in"):
            Store(folder).find("a")
