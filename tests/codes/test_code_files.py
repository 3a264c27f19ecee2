"""Files of codes: .npz archives and .csv tables are read in float64, and wrong files are errors that name them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.codes import Representation, read_codes
from vaescope.errors import DataError

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.standard_normal((30, 3)).astype(np.float32)
VARIANCE = GENERATOR.uniform(0.1, 1, (30, 3)).astype(np.float32)
SAMPLE = GENERATOR.standard_normal((30, 3)).astype(np.float32)
FACTORS, LABELS = np.arange(60).reshape(30, 2) % 5, np.arange(30) % 4


def from_pair(seed: int = 0) -> Representation:
    return Representation.from_arrays({"mean": MEAN, "variance": VARIANCE}, seed=seed)


def same(one: Representation, other: Representation) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("mean", "variance", "sample"))


def table(path: Path, columns: dict[str, np.ndarray], separator: str = ",") -> Path:
    rows = zip(*(map(repr, values.tolist()) for values in columns.values()), strict=True)
    lines = [separator.join(columns), *(separator.join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def columns(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name}_{latent}": array[:, latent] for name, array in arrays.items() for latent in range(array.shape[1])}


def test_an_archive_may_contain_samples_factors_and_labels(tmp_path: Path) -> None:
    file = tmp_path / "codes.npz"
    np.savez(file, mean=MEAN, variance=VARIANCE, other=np.array(["words"]))
    codes = read_codes(file)
    assert same(codes, from_pair())
    assert codes.factors is None
    assert codes.labels is None
    np.savez(file, mean=MEAN, variance=VARIANCE, sample=SAMPLE, factors=FACTORS, labels=LABELS)
    codes = read_codes(str(file))
    assert torch.equal(codes.sample, torch.from_numpy(SAMPLE).double())
    assert codes.factors is not None
    assert codes.labels is not None
    assert codes.factors.tolist() == FACTORS.tolist()
    assert codes.labels.tolist() == LABELS.tolist()


def test_a_saved_representation_is_read(tmp_path: Path) -> None:
    from_pair(seed=4).save(tmp_path / "codes.npz")
    assert same(read_codes(tmp_path / "codes.npz"), from_pair(seed=4))


def test_a_log_variance_becomes_a_variance(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=MEAN, log_variance=np.log(VARIANCE.astype(float)))
    table(tmp_path / "codes.csv", columns(log_variance=np.log(VARIANCE.astype(float)), mean=MEAN))
    for name in ("codes.npz", "codes.csv"):
        torch.testing.assert_close(read_codes(tmp_path / name).variance, torch.from_numpy(VARIANCE).double())


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_of_a_table_may_have_any_order(separator: str, tmp_path: Path) -> None:
    named = columns(mean=MEAN.astype(float), variance=VARIANCE.astype(float))
    order = np.random.default_rng(1).permutation(list(named))
    shuffled = {name: named[name] for name in order} | {"name": np.arange(30), "mean_of_all": MEAN[:, 0]}
    assert same(read_codes(table(tmp_path / "codes.csv", shuffled, separator)), from_pair())


def test_latents_of_a_table_are_in_numerical_order(tmp_path: Path) -> None:
    mean = np.tile(np.arange(12.0), (4, 1))
    codes = read_codes(table(tmp_path / "codes.csv", columns(variance=np.ones_like(mean), mean=mean)))
    assert codes.mean[0].tolist() == list(range(12))


def test_a_table_may_contain_labels_factors_and_samples(tmp_path: Path) -> None:
    parts = columns(mean=MEAN, variance=VARIANCE, sample=SAMPLE, factors=FACTORS)
    codes = read_codes(table(tmp_path / "codes.csv", {"labels": LABELS, **parts}))
    assert codes.factors is not None
    assert codes.labels is not None
    assert codes.factors.tolist() == FACTORS.tolist()
    assert codes.labels.tolist() == LABELS.tolist()
    assert codes.sample.tolist() == SAMPLE.tolist()


ARCHIVES: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "other arrays": ({"x": MEAN}, "mean .*variance or log_variance"),
    "no variance": ({"mean": MEAN}, "variance or log_variance"),
    "both": ({"mean": MEAN, "variance": VARIANCE, "log_variance": VARIANCE}, "either variance or log_variance"),
    "sample": ({"mean": MEAN, "variance": VARIANCE, "sample": SAMPLE[:4]}, r"sample .*\(30, 3\) and \(4, 3\)"),
    "labels": ({"mean": MEAN, "variance": VARIANCE, "labels": LABELS[:4]}, r"labels .*30 items.*\(4,\)"),
    "factors": ({"mean": MEAN, "variance": VARIANCE, "factors": FACTORS / 2}, r"factors .*0\.5"),
    "words": ({"mean": MEAN.astype(str), "variance": VARIANCE}, "mean .*real numbers"),
    "pickles": ({"mean": MEAN.astype(object), "variance": VARIANCE}, "pickled"),
}


@pytest.mark.parametrize(("arrays", "facts"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_wrong_archive_is_an_error(arrays: dict[str, np.ndarray], facts: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=facts):
        read_codes(tmp_path / "codes.npz")


def test_a_truncated_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "codes.npz").read_bytes()[:500])
    with pytest.raises(DataError, match=r"cut\.npz"):
        read_codes(tmp_path / "cut.npz")


def test_a_missing_file_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"File not found: nowhere\.npz"):
        read_codes("nowhere.npz")


def test_a_file_with_another_suffix_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "codes.npy", MEAN)
    with pytest.raises(DataError, match=r"codes\.npy .*\.npz or \.csv"):
        read_codes(tmp_path / "codes.npy")


TABLES = {
    "other columns": ("a,b\n1,2\n", "mean_0, variance_0"),
    "no header": ("1,2\n3,4\n", "mean_0, variance_0"),
    "empty": ("", "mean_0, variance_0"),
    "no lines": ("mean_0,variance_0\n", "line"),
    "a word": ("mean_0,variance_0\n1,2\n\n1,much\n", r"line 4, column 2 \(variance_0\).*'much'"),
    "an empty cell": ("mean_0,variance_0\n1,\n", r"line 2, column 2 \(variance_0\).*''"),
    "ragged": ("mean_0,variance_0\n1,2\n1\n", "2 cells.* line 3 has 1"),
    "too wide": ("mean_0,variance_0\n1,2,3\n", "2 cells.* line 2 has 3"),
    "a gap": ("mean_0,mean_2,variance_0,variance_2\n1,2,3,4\n", "mean_1 is missing"),
    "from 1": ("mean_1,variance_1\n1,2\n", "mean_0 is missing"),
    "twice": ("mean_0,mean_0,variance_0\n1,2,3\n", "mean_0 .*twice"),
    "fewer variances": ("mean_0,mean_1,variance_0\n1,2,3\n", r"\(1, 2\) and \(1, 1\)"),
}


@pytest.mark.parametrize(("text", "facts"), TABLES.values(), ids=TABLES)
def test_a_wrong_table_is_an_error(text: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(text)
    with pytest.raises(DataError, match=rf"codes\.csv.*{facts}"):
        read_codes(tmp_path / "codes.csv")


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_bytes(b"\xff\xfe\x00mean")
    with pytest.raises(DataError, match=r"codes\.csv"):
        read_codes(tmp_path / "codes.csv")
