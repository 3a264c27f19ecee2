"""Codes from models, functions, files and arrays: the same from every kind of subject."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.diagnosis import diagnose
from vaescope.encoding import adapt, encode
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import Architecture

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.standard_normal((30, 3)).astype(np.float32)
VARIANCE = GENERATOR.uniform(0.1, 1, (30, 3)).astype(np.float32)
SAMPLE = GENERATOR.standard_normal((30, 3)).astype(np.float32)
FACTORS, LABELS = np.arange(60).reshape(30, 2) % 5, np.arange(30) % 4
ITEMS = GENERATOR.random((30, 6)).astype(np.float32)


def same(one: Representation, other: Representation) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("mean", "variance", "sample"))


def test_a_representation_is_returned_unchanged() -> None:
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
def test_pairs_of_any_kind_of_array_give_the_same_codes(made: Callable[[np.ndarray], Any]) -> None:
    assert same(adapt((made(MEAN), made(VARIANCE))), adapt([MEAN, VARIANCE]))


def test_read_only_arrays_are_accepted() -> None:
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


def test_a_file_of_codes_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE)
    for path in (tmp_path / "codes.npz", str(tmp_path / "codes.npz")):
        assert same(adapt(path, seed=4), adapt((MEAN, VARIANCE), seed=4))


def pair(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:, :3] - 0.5, x[:, 3:] + 0.1


Named = namedtuple("Named", ["mu", "logvar"])
EXACT = torch.from_numpy(MEAN).double(), torch.from_numpy(VARIANCE).double()
POSTERIORS: dict[str, Any] = {
    "mu and logvar": {"mu": MEAN, "logvar": EXACT[1].log()},
    "mean and std": {"mean": MEAN, "std": EXACT[1].sqrt()},
    "loc and log_scale": {"loc": MEAN, "log_scale": EXACT[1].log() / 2},
    "a named tuple": Named(EXACT[0], EXACT[1].log()),
    "a distribution": torch.distributions.Normal(EXACT[0], EXACT[1].sqrt()),
    "a mapping that holds one": {"posterior": torch.distributions.Normal(EXACT[0], EXACT[1].sqrt())},
    "an object that holds one": SimpleNamespace(latent_dist=torch.distributions.Normal(EXACT[0], EXACT[1].sqrt())),
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_outputs_of_a_model_are_interpreted_as_in_wrap(name: str) -> None:
    found = adapt(POSTERIORS[name])
    torch.testing.assert_close(found.mean, EXACT[0])
    torch.testing.assert_close(found.variance, EXACT[1])
    torch.testing.assert_close(found.sample, adapt((MEAN, VARIANCE)).sample)
    assert diagnose(POSTERIORS[name]).types.types == diagnose((MEAN, VARIANCE)).types.types


def test_factors_and_a_prior_come_with_a_posterior_by_other_names() -> None:
    prior = {"prior_mean": np.zeros(3), "prior_var": np.full(3, 4.0)}
    found = adapt(
        {"mu": MEAN, "var": VARIANCE, "factors": FACTORS, **{k: v[None] + 0 * MEAN for k, v in prior.items()}}
    )
    assert found.factors is not None
    assert found.factors.tolist() == FACTORS.tolist()
    assert found.prior_variance is not None
    assert found.prior_variance.unique().tolist() == [4.0]


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


def test_a_model_gives_the_codes_of_encode() -> None:
    net = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}
    model: Any = Architecture("vae", net, "diagonal").build((6,), 2, seed=0)
    wanted = encode(model, ITEMS, seed=2)
    for subject in (model.encode, model):
        codes = adapt(subject, ITEMS, seed=2)
        torch.testing.assert_close(codes.mean.double(), wanted.mean.double())
        torch.testing.assert_close(codes.sample.double(), wanted.sample.double(), rtol=1e-5, atol=1e-6)
        assert not codes.mean.requires_grad


WRONG: dict[str, tuple[Any, Any, str]] = {
    "shapes": ((MEAN, VARIANCE[:, :2]), None, r"\(30, 3\) and \(30, 2\)"),
    "one dimension": ((MEAN[:, 0], VARIANCE[:, 0]), None, r"mean .*\(30,\)"),
    "three arrays": ((MEAN, VARIANCE, SAMPLE), None, r"\(mean, variance\).* got tuple of 3"),
    "a number": (3, None, "got int"),
    "nothing": (None, None, "got NoneType"),
    "words": ((np.array([["a"]]), VARIANCE), None, "mean .*real numbers.* <U1"),
    "complex numbers": ((MEAN, torch.from_numpy(VARIANCE) * 1j), None, "variance .*real numbers.* .*complex"),
    "ragged lists": (([[1, 2], [3]], VARIANCE), None, "mean "),
    "missing file": ("nowhere.npz", None, "nowhere.npz"),
    "no data": (pair, None, "Pass data"),
    "data for arrays": ((MEAN, VARIANCE), ITEMS, "data .* got tuple"),
    "returns three": (lambda x: (x, x + 1, x + 2), ITEMS, r"tuple of 3 .*3 of which could be"),
    "returns one": (lambda x: x, ITEMS, r"one tensor of shape \(30, 6\).*'mean'"),
    "returns nothing": (lambda x: None, ITEMS, "NoneType"),
    "too few rows": (lambda x: (x[:5], x[:5]), ITEMS, r"tuple of 2 .*\(5, 6\)"),
    "rows of numbers": (lambda x: (x[:, 0], x[:, 0]), ITEMS, r"tuple of 2 .*\(30,\)"),
    "returns words": (lambda x: ("a", "b"), ITEMS, "tuple of 2"),
}


@pytest.mark.parametrize(("subject", "data", "facts"), WRONG.values(), ids=WRONG)
def test_a_wrong_subject_is_an_error_on_one_line(subject: Any, data: Any, facts: str) -> None:
    with pytest.raises((DataError, ConfigurationError), match=facts) as caught:
        adapt(subject, data)
    assert "\n" not in str(caught.value)
