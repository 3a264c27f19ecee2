"""Similarity by the number of items (Bonheme, figure 7.1)."""

from __future__ import annotations

import numpy as np
import pytest

from vaescope.errors import ConfigurationError
from vaescope.similarity import linear_cka, procrustes, sample_size_study

GENERATOR = np.random.default_rng(0)


def kept_features(share: float, items: int = 2000, features: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Two tables of which the second keeps a share of the first one's features (section 7.2.2)."""
    first, second = GENERATOR.normal(size=(2, items, features))
    second[:, : round(share * features)] = first[:, : round(share * features)]
    return first, second


@pytest.mark.parametrize("share", [0.8, 0.5])
def test_both_measures_find_the_share_of_common_features(share: float) -> None:
    study = sample_size_study(*kept_features(share), sizes=(100, 2000), repeats=2)
    assert study.mean["cka"][-1] == pytest.approx(share, abs=0.05)
    assert study.mean["procrustes"][-1] == pytest.approx(share, abs=0.1)


def test_procrustes_overestimates_what_is_unrelated_and_cka_falls() -> None:
    study = sample_size_study(*kept_features(0.0), sizes=(60, 200, 2000), repeats=3)
    cka, unbiased, procrustes_score = (study.mean[name] for name in ("cka", "unbiased_cka", "procrustes"))
    assert cka[0] > 0.3
    assert cka[-1] < 0.05
    assert (np.abs(unbiased) < 0.05).all()
    assert (procrustes_score > cka).all()
    assert procrustes_score[-1] > 0.1
    assert "from 60 to 2000 items: cka" in study.summary()


def test_a_study_draws_by_its_seed_and_ends_with_all_items() -> None:
    first, second = kept_features(0.5, 150, 10)
    one, again, other = (sample_size_study(first, second, seed=seed) for seed in (1, 1, 2))
    assert one.sizes == (50, 100, 150)
    assert one.rows() == again.rows() != other.rows()
    assert one.mean["cka"][-1] == pytest.approx(linear_cka(first, second))
    assert one.deviation["procrustes"][-1] == pytest.approx(0, abs=1e-12)
    assert one.mean["procrustes"][-1] == pytest.approx(procrustes(first, second))
    assert len(one.rows()) == 9


def test_wrong_sizes_are_named() -> None:
    first, second = kept_features(0.5, 20, 3)
    for sizes in ((3,), (21,), (5.5,)):
        with pytest.raises(ConfigurationError, match="sizes"):
            sample_size_study(first, second, sizes=sizes)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least one"):
        sample_size_study(first, second, sizes=())
