"""Codes from anything that can encode: the same from every kind of subject, and a sentence for every wrong one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.encoding import adapt, encode
from vaescope.errors import DataError
from vaescope.models import Architecture

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.standard_normal((30, 3)).astype(np.float32)
VARIANCE = GENERATOR.uniform(0.1, 1, (30, 3)).astype(np.float32)
SAMPLE = GENERATOR.standard_normal((30, 3)).astype(np.float32)
FACTORS, LABELS = np.arange(60).reshape(30, 2) % 5, np.arange(30) % 4
ITEMS = GENERATOR.random((30, 6)).astype(np.float32)


def same(one: Representation, other: Representation) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("mean", "variance", "sample"))


def table(path: Path, columns: dict[str, np.ndarray], separator: str = ",") -> Path:
    rows = zip(*(map(repr, values.tolist()) for values in columns.values()), strict=True)
    lines = [separator.join(columns), *(separator.join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def columns(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name}_{latent}": array[:, latent] for name, array in arrays.items() for latent in range(array.shape[1])}


def test_a_representation_comes_back_as_it_is() -> None:
    codes = Representation(*(torch.from_numpy(part) for part in (MEAN, VARIANCE, SAMPLE)))
    assert adapt(codes) is codes


PAIRS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda part: part.astype(np.float64),
    "torch": torch.from_numpy,
    "torch float64": lambda part: torch.from_numpy(part).double(),
    "gradient": lambda part: torch.from_numpy(part).requires_grad_(),
    "lists": lambda part: part.tolist(),
    "columns first": np.asfortranarray,
    "other byte order": lambda part: part.astype(">f4"),
}


@pytest.mark.parametrize("made", PAIRS.values(), ids=PAIRS)
def test_pairs_of_all_kinds_of_arrays_give_the_same_codes(made: Callable[[np.ndarray], Any]) -> None:
    assert same(adapt((made(MEAN), made(VARIANCE))), adapt([MEAN, VARIANCE]))


def test_arrays_that_must_not_be_written_to_are_taken() -> None:
    frozen = MEAN.copy()
    frozen.flags.writeable = False
    assert same(adapt((frozen, VARIANCE)), adapt((MEAN, VARIANCE)))


def test_the_sample_is_drawn_by_the_seed_around_the_mean() -> None:
    mean, variance = np.full((20000, 1), 3.0), np.full((20000, 1), 4.0)
    one, again, other = (adapt((mean, variance), seed=seed).sample for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert float(one.mean()) == pytest.approx(3, abs=0.1)
    assert float(one.std()) == pytest.approx(2, abs=0.1)


def test_an_archive_gives_what_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "codes.npz"
    np.savez(file, mean=MEAN, variance=VARIANCE, other=np.array(["words"]))
    codes = adapt(file)
    assert same(codes, adapt((MEAN, VARIANCE)))
    assert codes.factors is None
    assert codes.labels is None
    np.savez(file, mean=MEAN, variance=VARIANCE, sample=SAMPLE, factors=FACTORS, labels=LABELS)
    codes = adapt(str(file))
    assert torch.equal(codes.sample, torch.from_numpy(SAMPLE).double())
    assert codes.factors is not None
    assert codes.labels is not None
    assert codes.factors.tolist() == FACTORS.tolist()
    assert codes.labels.tolist() == LABELS.tolist()


def test_what_a_representation_saved_is_read(tmp_path: Path) -> None:
    adapt((MEAN, VARIANCE), seed=4).save(tmp_path / "codes.npz")
    assert same(adapt(tmp_path / "codes.npz"), adapt((MEAN, VARIANCE), seed=4))


def test_a_log_variance_becomes_a_variance(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=MEAN, log_variance=np.log(VARIANCE.astype(float)))
    table(tmp_path / "codes.csv", columns(log_variance=np.log(VARIANCE.astype(float)), mean=MEAN))
    for name in ("codes.npz", "codes.csv"):
        torch.testing.assert_close(adapt(tmp_path / name).variance, torch.from_numpy(VARIANCE).double())


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_in_any_order_of_columns(separator: str, tmp_path: Path) -> None:
    named = columns(mean=MEAN.astype(float), variance=VARIANCE.astype(float))
    order = np.random.default_rng(1).permutation(list(named))
    shuffled = {name: named[name] for name in order} | {"name": np.arange(30), "mean_of_all": MEAN[:, 0]}
    assert same(adapt(table(tmp_path / "codes.csv", shuffled, separator)), adapt((MEAN, VARIANCE)))


def test_latents_of_a_table_are_ordered_as_numbers_not_as_words(tmp_path: Path) -> None:
    mean = np.tile(np.arange(12.0), (4, 1))
    codes = adapt(table(tmp_path / "codes.csv", columns(variance=np.ones_like(mean), mean=mean)))
    assert codes.mean[0].tolist() == list(range(12))


def test_a_table_may_hold_labels_factors_and_samples(tmp_path: Path) -> None:
    parts = columns(mean=MEAN, variance=VARIANCE, sample=SAMPLE, factors=FACTORS)
    codes = adapt(table(tmp_path / "codes.csv", {"labels": LABELS, **parts}))
    assert codes.factors is not None
    assert codes.labels is not None
    assert codes.factors.tolist() == FACTORS.tolist()
    assert codes.labels.tolist() == LABELS.tolist()
    assert codes.sample.tolist() == SAMPLE.tolist()


def pair(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:, :3] - 0.5, x[:, 3:] + 0.1


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "posterior": lambda x: torch.distributions.Normal(pair(x)[0].double(), pair(x)[1].double().sqrt()),
    "list": lambda x: list(pair(x)),
    "numpy": lambda x: tuple(part.numpy() for part in pair(x)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_may_return_a_posterior_or_a_pair(function: Callable[[Tensor], Any]) -> None:
    data = from_array(np.tile(ITEMS, (50, 1)), "items", labels=np.tile(LABELS, 50))  # more than one chunk
    codes, wanted = adapt(function, data), adapt(pair(torch.from_numpy(np.tile(ITEMS, (50, 1)))))
    for name in ("mean", "variance", "sample"):
        torch.testing.assert_close(getattr(codes, name), getattr(wanted, name))
    assert codes.labels is not None
    assert codes.labels.tolist() == LABELS.tolist() * 50


def test_a_model_of_ours_gives_the_codes_of_encode() -> None:
    net = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}
    model: Any = Architecture("vae", net, "diagonal").build((6,), 2, seed=0)
    wanted = encode(model, ITEMS, seed=2)
    for subject in (model.encode, model):
        codes = adapt(subject, ITEMS, seed=2)
        torch.testing.assert_close(codes.mean.double(), wanted.mean.double())
        torch.testing.assert_close(codes.sample.double(), wanted.sample.double(), rtol=1e-5, atol=1e-6)
        assert not codes.mean.requires_grad


WRONG: dict[str, tuple[Any, Any, str]] = {
    "shapes": ((MEAN, VARIANCE[:, :2]), None, r"of one shape, items x latents, got \(30, 3\) and \(30, 2\)"),
    "one dimension": ((MEAN[:, 0], VARIANCE[:, 0]), None, r"mean must be a table, items x latents, got .* \(30,\)"),
    "three arrays": ((MEAN, VARIANCE, SAMPLE), None, "a pair .mean, variance. of arrays, .* got tuple of 3"),
    "a number": (3, None, "must be codes, .* got int"),
    "nothing": (None, None, "must be codes, .* got NoneType"),
    "words": ((np.array([["a"]]), VARIANCE), None, "mean must hold real numbers, got type <U1"),
    "truth values": ((MEAN, torch.from_numpy(VARIANCE) > 0), None, "variance must hold real numbers, got .*bool"),
    "ragged lists": (([[1, 2], [3]], VARIANCE), None, "mean must be a full table"),
    "missing file": ("nowhere.npz", None, "nowhere.npz must be a file of codes .*, there is no such file"),
    "no data": (pair, None, "needs data to encode"),
    "data too many": ((MEAN, VARIANCE), ITEMS, "data are for a function that encodes, got tuple"),
    "returns three": (lambda x: (x, x, x), ITEMS, "must return a posterior .* got tuple of 3"),
    "returns one": (lambda x: x, ITEMS, "must return a posterior .* got Tensor"),
    "returns nothing": (lambda x: None, ITEMS, "must return a posterior .* got NoneType"),
    "too few rows": (lambda x: (x[:5], x[:5]), ITEMS, r"for each of the 30 items of a batch, got the shape \(5, 6\)"),
    "rows of numbers": (lambda x: (x[:, 0], x[:, 0]), ITEMS, r"one row of latents .* got the shape \(30,\)"),
    "returns words": (lambda x: ("a", "b"), ITEMS, "mean must hold real numbers"),
}


def refused(message: str, subject: Any, data: Any = None) -> None:
    with pytest.raises(DataError, match=message) as caught:
        adapt(subject, data)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(("subject", "data", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_subject_gets_a_sentence(subject: Any, data: Any, message: str) -> None:
    refused(message, subject, data)


ARCHIVES: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "other arrays": ({"x": MEAN}, "must hold mean and either variance or log_variance, .* it holds none of them"),
    "no variance": ({"mean": MEAN}, "it holds mean"),
    "both": ({"mean": MEAN, "variance": VARIANCE, "log_variance": VARIANCE}, "either variance or log_variance"),
    "sample": ({"mean": MEAN, "variance": VARIANCE, "sample": SAMPLE[:4]}, r"mean and sample .* and \(4, 3\)"),
    "labels": ({"mean": MEAN, "variance": VARIANCE, "labels": LABELS[:4]}, "labels must have one row for each of"),
    "factors": ({"mean": MEAN, "variance": VARIANCE, "factors": FACTORS / 2}, "factors must be whole numbers"),
    "words": ({"mean": MEAN.astype(str), "variance": VARIANCE}, "mean must hold real numbers"),
    "pickles": ({"mean": MEAN.astype(object), "variance": VARIANCE}, "without pickled objects"),
}


@pytest.mark.parametrize(("arrays", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_wrong_archive_gets_a_sentence(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", **arrays)
    refused(message, tmp_path / "codes.npz")


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "codes.npz").read_bytes()[:500])
    refused("cut.npz must be an .npz archive of arrays, whole", tmp_path / "cut.npz")


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "codes.npy", MEAN)
    refused("codes.npy must be a file of codes, its name must end in .npz or .csv", tmp_path / "codes.npy")


TABLES = {
    "other columns": ("a,b\n1,2\n", "it holds none of them. In a .csv name the columns mean_0, variance_0"),
    "no header": ("1,2\n3,4\n", "it holds none of them"),
    "empty": ("", "it holds none of them"),
    "no lines": ("mean_0,variance_0\n", "must hold one line per item below its header"),
    "a word": ("mean_0,variance_0\n1,2\n\n1,much\n", r"line 4, column 2 \(variance_0\) is 'much'"),
    "an empty cell": ("mean_0,variance_0\n1,\n", r"line 2, column 2 \(variance_0\) is ''"),
    "ragged": ("mean_0,variance_0\n1,2\n1\n", "must have 2 cells, .* line 3 has 1"),
    "too wide": ("mean_0,variance_0\n1,2,3\n", "must have 2 cells, .* line 2 has 3"),
    "a gap": ("mean_0,mean_2,variance_0,variance_2\n1,2,3,4\n", "mean_0, mean_1, ... without a gap, mean_1 is missing"),
    "from 1": ("mean_1,variance_1\n1,2\n", "mean_0 is missing"),
    "twice": ("mean_0,mean_0,variance_0\n1,2,3\n", "must name each column once, mean_0 is there twice"),
    "fewer variances": ("mean_0,mean_1,variance_0\n1,2,3\n", r"of one shape, .* got \(1, 2\) and \(1, 1\)"),
}


@pytest.mark.parametrize(("text", "message"), TABLES.values(), ids=TABLES)
def test_a_wrong_table_gets_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(text)
    refused(message, tmp_path / "codes.csv")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_bytes(b"\xff\xfe\x00mean")
    refused("codes.csv must be a table of numbers with a header", tmp_path / "codes.csv")
