"""Results of studies on disk: complete or absent, verified when read, merged across folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vaescope.errors import ConfigurationError, RunError
from vaescope.studies.context import MissingResults, Values
from vaescope.studies.results import Result, ResultKey, ResultStore

KEY = ResultKey.of("0123456789ab", "types", {"items": 100})


def test_a_result_is_found_by_its_subject_measurement_options_and_version(tmp_path: Path) -> None:
    ResultStore(tmp_path).add(KEY, Result({"active": 3}, made={"device": "cpu"}))
    store = ResultStore(tmp_path)
    found = store.find(KEY)
    assert found is not None
    assert (found.value, found.made) == ({"active": 3}, {"device": "cpu"})
    others = [
        ResultKey.of("0123456789ac", "types", {"items": 100}),
        ResultKey.of("0123456789ab", "rates", {"items": 100}),
        ResultKey.of("0123456789ab", "types", {"items": 101}),
        ResultKey.of("0123456789ab", "types", {"items": 100}, version=2),
    ]
    assert [store.find(other) for other in others] == [None] * 4


@pytest.mark.parametrize("damage", [lambda text: text[:-30], lambda text: text.replace("3", "4"), lambda text: "[]"])
def test_a_damaged_result_is_noticed_and_named(damage, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ResultStore(tmp_path).add(KEY, Result({"active": 3}))
    file = tmp_path / KEY.file_name
    file.write_text(damage(file.read_text()))
    with pytest.raises(RunError, match=file.name):
        ResultStore(tmp_path).find(KEY)


def test_a_result_under_a_wrong_name_is_noticed(tmp_path: Path) -> None:
    other = ResultKey.of("0123456789ac", "types", {"items": 100})
    ResultStore(tmp_path).add(KEY, Result(1.0))
    (tmp_path / KEY.file_name).rename(tmp_path / other.file_name)
    with pytest.raises(RunError, match="another result"):
        ResultStore(tmp_path).find(other)


def test_a_result_of_a_newer_version_is_not_misread(tmp_path: Path) -> None:
    ResultStore(tmp_path).add(KEY, Result(1.0))
    file = tmp_path / KEY.file_name
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))
    with pytest.raises(RunError, match="newer version"):
        ResultStore(tmp_path).find(KEY)


def test_folders_with_equal_values_for_equal_keys_are_merged(tmp_path: Path) -> None:
    other = ResultKey.of("0123456789ac", "types")
    here, there = ResultStore(tmp_path / "here"), ResultStore(tmp_path / "there")
    here.add(KEY, Result(1.0, made={"device": "one"}))
    there.add(KEY, Result(1.0, made={"device": "another"}))
    there.add(other, Result(None, "it diverged"))
    assert here.merge(tmp_path / "there") == 1
    found = ResultStore(tmp_path / "here").find(other)
    assert found == Result(None, "it diverged")
    assert here.merge(tmp_path / "there") == 0


def test_conflicts_are_refused_before_anything_is_copied(tmp_path: Path) -> None:
    here, there = ResultStore(tmp_path / "here"), ResultStore(tmp_path / "there")
    here.add(KEY, Result(1.0))
    there.add(KEY, Result(2.0))
    there.add(ResultKey.of("0123456789ac", "types"), Result(3.0))
    with pytest.raises(ConfigurationError, match=r"same value of types for 0123456789ab") as refused:
        here.merge(tmp_path / "there")
    assert str(refused.value).count("\n") == 0
    assert len(list((tmp_path / "here").iterdir())) == 1
    with pytest.raises(ConfigurationError, match="nowhere"):
        here.merge(tmp_path / "nowhere")


def test_values_are_read_lazily(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    keys = [ResultKey.of(f"run{number}", "loss") for number in range(3)]
    values = Values(store, keys)
    assert len(values) == 3
    with pytest.raises(MissingResults):
        list(values)
    for number, key in enumerate(keys):
        store.add(key, Result(float(number), "it diverged" if number == 2 else None))
    assert list(values[:2]) == [0.0, 1.0]
    assert (values.finished, values.diverged) == ([0.0, 1.0], 1)
    with pytest.raises(RunError, match="run2 diverged"):
        list(values)
