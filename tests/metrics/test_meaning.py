"""What latents encode, in bits and in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from vaescope.metrics import meaning

NAMES = ("shape", "position x", "scale")


def sprites(items: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, [3, 8, 4], (items, 3)), generator.standard_normal((items, 4))


def test_bits_are_those_of_scikit_learn() -> None:
    factors, noise = sprites()
    codes = np.column_stack([factors[:, 1] + 0.3 * noise[:, 0], noise[:, 1]])
    found = meaning(codes, factors, names=NAMES)
    for latent in range(2):
        edges = np.histogram_bin_edges(codes[:, latent], 20)
        binned = np.digitize(codes[:, latent], edges[1:-1])
        for column in range(3):
            wanted = mutual_info_score(factors[:, column], binned) / math.log(2)
            assert found.bits[latent, column] == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_allclose(found.entropies, np.log2([3, 8, 4]), atol=0.01)


def test_each_latent_says_what_it_encodes_and_which_others_do() -> None:
    factors, noise = sprites()
    place = factors[:, 1]
    codes = np.column_stack(
        [place + 0.05 * noise[:, 0], factors[:, 0] + 0.1 * noise[:, 1], noise[:, 2], factors[:, 0] + 0.3 * noise[:, 3]]
    )
    found = meaning(codes, factors, names=NAMES)
    first, second, third, fourth = found.sentences()
    assert f"latent 0 encodes position x ({found.bits[0, 1]:.2f} bits)" in first
    assert "no other" in first
    assert second.startswith("latent 1 encodes shape (1.5")
    assert second.endswith("latent 3")
    assert third == "latent 2 encodes no factor"
    assert fourth.endswith("latent 1")
    alone, several, none = found.summary().split("; ")
    assert (alone[:10], several[:5], none[:5]) == ("position x", "shape", "scale")
    assert found.rows()[0]["encodes"] == first
    assert found.rows()[2]["latent"] == 2


def test_a_latent_may_encode_several_factors() -> None:
    factors, noise = sprites()
    codes = (8 * factors[:, 0] + factors[:, 1] + 0.01 * noise[:, 0])[:, None]
    (sentence,) = meaning(codes, factors, names=NAMES, bins=24).sentences()
    assert sentence.startswith("latent 0 encodes position x (")
    assert "and shape (" in sentence
    assert sentence.endswith("no other latent encodes position x")


def test_a_latent_with_less_than_a_tenth_of_the_entropy_encodes_nothing() -> None:
    factors, noise = sprites(8000)
    place = factors[:, 1] - factors[:, 1].mean()
    codes = np.column_stack([place + spread * noise[:, 0] for spread in (1.0, 3.0, 12.0)])
    found = meaning(codes, factors, names=NAMES)
    shares = found.bits[:, 1] / found.entropies[1]
    # The weakest relation is not chance, and too weak for a name.
    assert shares[0] > 0.2 > shares[1] > 0.1 > shares[2] > 0
    assert found.beyond_chance[:, 1].tolist() == [True, True, True]
    assert found.encodes[:, 1].tolist() == [True, True, False]
    weak = meaning(codes[:, 2:], factors, names=NAMES)
    assert weak.sentences() == ["latent 0 encodes no factor"]
    assert weak.carriers("position x") == []


def test_a_latent_encodes_no_more_than_its_rate_whatever_its_mean_predicts() -> None:
    factors, noise = sprites()
    found = meaning(factors[:, 1:2] + 0.05 * noise[:, :1], factors, names=NAMES)
    least = 0.1 * found.entropies[1] * math.log(2)
    for rate, encodes in ((0.9 * least, False), (1.1 * least, True)):
        limited = replace(found, rates=(rate,))
        assert limited.encodes[0].tolist() == [False, encodes, False]
        assert ("encodes position x" in limited.sentences()[0]) == encodes


def test_noise_encodes_nothing_however_few_the_items() -> None:
    wrong = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        codes, factors = generator.standard_normal((200, 5)), generator.integers(0, [3, 8, 40], (200, 3))
        wrong += int(meaning(codes, factors).beyond_chance.sum())
    assert wrong <= 6  # of 600


def test_excluded_latents_keep_their_indices() -> None:
    factors, noise = sprites(500)
    codes = np.column_stack([noise[:, 0], factors[:, 2] + 0.1 * noise[:, 1]])
    found = meaning(codes, factors, names=NAMES, exclude="passive", types=("passive", "active"))
    assert found.latents == (1,)
    assert found.sentences()[0].startswith("latent 1 encodes scale")
