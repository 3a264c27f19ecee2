"""Groups of latents and spatial latents: one diagnosis per group, rates that add up, the rate by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.codes import Representation
from vaescope.diagnosis import Diagnosis, GroupedDiagnosis
from vaescope.diagnosis.cards import BAD, GOOD, WARNING
from vaescope.errors import DataError
from vaescope.regime import rate_by_position

RANDOM = np.random.default_rng(0)
ITEMS = 400
ACTIVE = (RANDOM.normal(size=(ITEMS, 3)), np.full((ITEMS, 3), 0.01))
COLLAPSED = (np.zeros((ITEMS, 2)), np.ones((ITEMS, 2)))


def rates(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    found: np.ndarray = 0.5 * (mean**2 + variance - 1 - np.log(variance))
    return found


def test_each_group_has_the_diagnosis_that_its_codes_have_alone() -> None:
    found = vs.diagnose({"top": COLLAPSED, "bottom": ACTIVE})
    assert isinstance(found, GroupedDiagnosis)
    alone = vs.diagnose(ACTIVE)
    assert isinstance(alone, Diagnosis)
    assert found.groups["bottom"].types.types == alone.types.types
    assert [row["group"] for row in found.rows()] == ["top"] * 2 + ["bottom"] * 3
    assert "top: " in found.summary()
    assert "bottom: " in found.summary()


def test_the_rates_of_groups_add_up_and_a_collapsed_group_is_named() -> None:
    found = vs.diagnose({"top": COLLAPSED, "bottom": ACTIVE})
    assert isinstance(found, GroupedDiagnosis)
    assert found.cards[0].status == WARNING
    assert "top equals its prior" in found.cards[0].advice
    by_group = {row["group"]: row["rate"] for row in found.cards[0].rows}
    assert by_group["bottom"] == pytest.approx(rates(*ACTIVE).sum(1).mean())
    assert by_group["top"] == pytest.approx(0, abs=1e-12)
    assert vs.diagnose({"a": ACTIVE, "b": ACTIVE}).cards[0].status == GOOD
    assert vs.diagnose({"a": COLLAPSED, "b": COLLAPSED}).cards[0].status == BAD


def test_a_group_is_measured_against_its_own_prior() -> None:
    mean, variance = torch.full((ITEMS, 2), 3.0), torch.full((ITEMS, 2), 4.0)
    own = Representation(mean, variance, mean, prior_mean=torch.full((2,), 3.0), prior_variance=torch.full((2,), 4.0))
    without = Representation(mean, variance, mean)
    found = vs.diagnose({"own": own, "standard": without})
    assert isinstance(found, GroupedDiagnosis)
    assert found.types["own"].types == ("passive", "passive")
    assert "passive" not in found.types["standard"].types


def test_a_mapping_of_mean_and_variance_is_one_group() -> None:
    found = vs.diagnose({"mean": ACTIVE[0], "log_variance": np.log(ACTIVE[1])})
    assert isinstance(found, Diagnosis)
    assert found.types.types == vs.diagnose(ACTIVE).types.types


def test_the_rate_by_position_is_the_mean_over_items_of_each_channel() -> None:
    mean, variance = RANDOM.normal(size=(50, 3, 4, 5)), RANDOM.uniform(0.1, 1, (50, 3, 4, 5))
    codes = Representation.from_arrays({"mean": mean, "variance": variance})
    np.testing.assert_allclose(rate_by_position(codes).numpy(), rates(mean, variance).mean(0))
    with pytest.raises(DataError, match="spatial"):
        rate_by_position(Representation.from_arrays({"mean": mean[:, :, 0, 0], "variance": variance[:, :, 0, 0]}))


def test_the_card_about_positions_says_what_they_are_and_where_the_rate_is_highest() -> None:
    mean, variance = np.zeros((50, 2, 3, 3)), np.ones((50, 2, 3, 3))
    mean[:, 1, 2, 0] = RANDOM.normal(size=50) * 5
    card = next(card for card in vs.diagnose((mean, variance)).cards if card.title == "Positions")
    assert "2 channels" in card.meaning
    assert "position (2, 0)" in card.meaning
    assert len(card.rows) == 9


def test_the_information_of_spatial_codes_is_that_of_one_position() -> None:
    mean = RANDOM.normal(size=(50, 2, 3, 3)) * 3
    spatial, vectors = (vs.diagnose((one, np.full(one.shape, 0.1))) for one in (mean, mean.reshape(50, -1)))
    meanings = [card.meaning for found in (spatial, vectors) for card in found.cards if card.title == "Information"]
    assert [meaning.split(" carr")[0] for meaning in meanings] == ["The code of one position", "The codes"]


def test_groups_of_positions_count_their_rate_per_item() -> None:
    mean, variance = RANDOM.normal(size=(50, 2, 3, 3)), np.full((50, 2, 3, 3), 0.5)
    found = vs.diagnose({"spatial": (mean, variance), "vector": (mean[:, :, 0, 0], variance[:, :, 0, 0])})
    by_group = {row["group"]: row["rate"] for row in found.cards[0].rows}
    assert by_group["spatial"] == pytest.approx(rates(mean, variance).sum((1, 2, 3)).mean())
    assert by_group["vector"] == pytest.approx(rates(mean, variance)[:, :, 0, 0].sum(1).mean())


def test_spatial_codes_survive_a_file(tmp_path: object) -> None:
    mean = RANDOM.normal(size=(5, 2, 3, 3))
    codes = Representation.from_arrays({"mean": mean, "variance": np.ones_like(mean)})
    codes.save(f"{tmp_path}/codes.npz")
    loaded = Representation.load(f"{tmp_path}/codes.npz")
    assert loaded.positions == (3, 3)
    torch.testing.assert_close(loaded.code(4), torch.from_numpy(mean[4]))
