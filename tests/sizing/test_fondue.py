"""FONDUE finds the number of factors behind data, and names what was not found or is missing."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import vaescope as vs
from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError, DataError, UnknownNameError, VaescopeError
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.sizing import (
    Answer,
    Fondue,
    IntrinsicDimension,
    Question,
    SearchOptions,
    SearchResult,
    Trace,
    load_results,
    search_many,
)
from vaescope.sizing.gaps import Evidence, GapTerms
from vaescope.sizing.result import Probe

TINY: dict[str, Any] = {
    "net": MLP((8,), (8,)),
    "seeds": 1,
    "period": 10,
    "max_periods": 2,
    "largest": 6,
    "batch": 16,
    "learning_rate": 1e-2,
    "probe_items": 200,
    "runs": None,
    "device": "cpu",
}
ONE_POINT = np.tile(np.linspace(0, 0.9, 8), (200, 1))


def searched(data: Any = None, **options: Any) -> Fondue:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=8, items=300) if data is None else data
    return vs.fondue(data, **{**TINY, **options})


def rendered(factors: int, items: int = 3000, width: int = 32, ambient: int = 64) -> np.ndarray:
    """Independent standard normal factors through a fixed two-layer decoder, plus noise."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    factor_values = normal(items, factors)
    first = torch.linalg.qr(normal(width, factors))[0].T * math.sqrt(width / factors)
    second = torch.linalg.qr(normal(ambient, width))[0].T * math.sqrt(ambient / width)
    hidden = torch.tanh(0.2 * factor_values @ first) / 0.2
    return (hidden @ second + 0.4 * normal(items, ambient)).numpy()


LEARNING: dict[str, Any] = {
    "net": MLP((32,), (32,)),
    "period": 300,
    "max_periods": 10,
    "batch": 32,
    "learning_rate": 5e-3,
    "probe_items": 3000,
}


@pytest.mark.slow
@pytest.mark.parametrize("factors", [3, 6, 10])
def test_the_factors_behind_rendered_data_are_found_within_one(factors: int) -> None:
    result = searched(rendered(factors), **{**LEARNING, "largest": 14})
    assert abs(result.latents - factors) <= 1
    assert result.stable
    assert 1 <= result.start <= 14
    assert result.dimension is not None
    gaps = {row["latents"]: row["gap"] for row in result.curve}
    assert gaps[result.latents] <= 1 < gaps[result.latents + 1]


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_start(tmp_path: Path) -> None:
    data, settings = rendered(3, items=1500, ambient=40), {**LEARNING, "period": 200, "precision": "float64"}
    results = [
        searched(data, **{**settings, "init": init, "largest": 30, "threshold": 0.75}, runs=tmp_path)
        for init in (5, 1, 2, 9, 30)
    ]
    assert {result.values for result in results} == {(3,)}
    assert [result.start for result in results] == [5, 1, 2, 9, 30]
    assert all(result.dimension is None for result in results)
    assert all(later.trained_steps < results[0].trained_steps for later in results[1:])


def test_no_import_shadows_the_public_functions() -> None:
    code = "import vaescope as vs, vaescope.sizing, vaescope.reporting, inspect; "
    code += "assert all(map(inspect.isfunction, (vs.fondue, vs.report, vs.fit, vs.diagnose, vs.encode)))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("gap", ["dimension", {"name": "information", "block": 100}, IntrinsicDimension(k=5)])
def test_the_other_gaps_run_from_end_to_end(gap: Any, tmp_path: Path) -> None:
    result = searched(gap=gap, runs=tmp_path)
    assert result.gap in ("dimension", "information")
    assert result.threshold == (-0.01 if result.gap == "information" else 1.0)
    assert 0 <= result.latents <= 6
    for probe in result.probes:
        assert probe.gap == pytest.approx(probe.minuend - probe.subtrahend, abs=1e-12)
    assert searched(gap=gap, runs=tmp_path).trained_steps == 0


@pytest.mark.parametrize("search", ["rounds", "interpolate", "bisection"])
def test_kinds_of_search_share_models_and_keep_their_own_results(search: str, tmp_path: Path) -> None:
    first = searched(runs=tmp_path, max_periods=1, largest=5)
    (folder,) = tmp_path.iterdir()
    kept = (folder / "fondue.json").read_bytes()
    found = searched(runs=tmp_path, max_periods=1, largest=5, search=search)
    assert list(tmp_path.iterdir()) == [folder]
    measured = {probe.value for probe in first.probes}
    new = {probe.value for probe in found.probes} - measured
    assert found.trained_steps == TINY["period"] * len(new) < TINY["period"] * found.models
    assert (found.values, found.search) == (first.values, search)
    names = {"fondue.json", *([] if search == "rounds" else [f"fondue-{search}.json"])}
    assert {path.name for path in folder.glob("*.json")} == {*names, "spent.json"}
    assert search == "rounds" or (folder / "fondue.json").read_bytes() == kept
    tables = load_results(tmp_path)
    assert sorted(table["search"] for table in tables) == sorted({"rounds", search})
    assert {Fondue.from_plain(table).values for table in tables} == {first.values}


def test_a_bisection_ends_where_that_of_the_thesis_does_unless_it_has_a_largest_size() -> None:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=300, items=50)
    for options, sizes in (({}, 199), ({"largest": 250}, 250)):
        chosen = SearchOptions(search="bisection", net=MLP((4,), (4,)), device="cpu", **options)
        setup = chosen.setup(data)
        assert chosen.spec(Question(init=3), "trace", Trace(), setup).axis.largest == sizes


def test_an_unknown_search_is_named_with_those_known() -> None:
    with pytest.raises(UnknownNameError, match=r"search must be one of bisection, interpolate, rounds; got 'bisect'"):
        searched(search="bisect")


def too_many(evidence: Evidence) -> float:
    return float(evidence.codes.mean.shape[1]) - 2


class Own:
    """A gap as an object with a threshold."""

    threshold = 2.5

    def __call__(self, evidence: Evidence) -> GapTerms:
        return GapTerms(float(evidence.codes.sample.shape[1]), 2.0)


def test_your_own_function_is_a_gap_if_a_threshold_is_given(tmp_path: Path) -> None:
    result = searched(gap=too_many, threshold=1.0, runs=tmp_path)
    assert (result.latents, result.gap, result.threshold) == (3, "too_many", 1.0)
    with pytest.raises(ConfigurationError, match=r"too_many.*threshold"):
        searched(gap=too_many)
    assert not list(tmp_path.iterdir())


def test_your_own_object_is_a_gap_with_its_threshold() -> None:
    result = searched(gap=Own())
    assert (result.latents, result.gap, result.threshold) == (4, "Own", 2.5)
    assert searched(gap=Own(), threshold=1.0).latents == 3


def test_a_gap_that_never_exceeds_the_threshold_is_reported_with_the_largest_size_tried() -> None:
    result = searched(gap=lambda evidence: 0.0, threshold=1.0)
    assert result.latents == 6
    assert not result.answers[0].search.bounded
    assert "never exceeds 1 up to 6" in result.summary()
    assert result.rows()[0]["bounded"] is False


def test_no_size_is_tried_above_the_dimensions_of_the_data() -> None:
    result = searched(gap=lambda evidence: 0.0, threshold=1.0, largest=None)
    assert result.latents == max(probe.value for probe in result.probes) == 8


def test_a_gap_above_the_threshold_at_one_latent_is_reported() -> None:
    result = searched(gap=lambda evidence: 7.0, threshold=1.0)
    assert (result.latents, result.values) == (0, (0,))
    assert "one latent has a gap above 1" in result.summary()
    assert json.dumps(result.plain(), allow_nan=False)


def test_constant_data_are_named() -> None:
    with pytest.raises(DataError, match="items must differ") as raised:
        searched(np.ones((200, 8)))
    assert_one_sentence_of_remedy(raised.value)


def test_data_of_one_point_are_named() -> None:
    with pytest.raises(DataError, match="intrinsic dimension") as raised:
        searched(ONE_POINT)
    assert_one_sentence_of_remedy(raised.value)


def test_data_of_too_few_distinct_points_are_named() -> None:
    points = np.random.default_rng(0).normal(size=(3, 8))
    with pytest.raises(DataError, match=r"intrinsic dimension.*distinct") as raised:
        searched(np.repeat(points, 60, axis=0))
    assert_one_sentence_of_remedy(raised.value)


def assert_one_sentence_of_remedy(error: VaescopeError) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 400


def test_data_of_one_point_with_a_given_start_have_no_active_latent() -> None:
    result = searched(ONE_POINT, init=2, period=30)
    assert result.latents <= 1
    assert all(probe.gap > probe.value / 2 for probe in result.probes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "autoencoder"}, "autoencoder.*'vae'"),
        ({"latents": 5}, "init=5"),
        ({"seeds": 0}, "seeds.*got 0"),
        ({"seeds": 10**9}, "seeds.*from 1 to"),
        ({"held_out": 1e308}, "held_out.*1e.308"),
        ({"period": 10**400}, "period.*401 characters"),
        ({"net": MLP((10**9,), (8,))}, r"must fit into memory.*1000000000"),
        ({"seeds": []}, r"seeds.*got \[\]"),
        ({"seeds": [1, 1]}, r"seeds.*got \[1, 1\]"),
        ({"seeds": [0, 1.5]}, "seed.*got 1.5"),
        ({"seeds": [-1]}, "seed.*got -1"),
        ({"seeds": "many"}, "seed.*got 'm"),
        ({"init": 0}, "init.*1 to 6, got 0"),
        ({"init": 7}, "init.*1 to 6, got 7"),
        ({"init": 2.5}, "init.*1 to 6, got 2.5"),
        ({"largest": 0}, "largest.*1 to 8, got 0"),
        ({"largest": 9}, "largest.*1 to 8, got 9"),
        ({"gap": "traces"}, "trace.*'traces'"),
        ({"gap": {"name": "trace", "limit": 2}}, "threshold.*'limit'"),
        ({"gap": 3, "threshold": 1.0}, "gap.*got 3"),
        ({"threshold": math.nan}, "threshold.*nan"),
        ({"period": 0}, "period.*got 0"),
        ({"max_periods": 0}, "max_periods.*got 0"),
        ({"probe_items": 1}, "probe_items.*2, got 1"),
        ({"learning_rate": 0.0}, "learning_rate.*above 0"),
        ({"over": "gamma", "largest": None}, "beta.*'gamma'"),
        ({"over": "beta"}, "largest.*beta"),
        ({"gap": 3}, "gap.*got 3"),
        ({"over": "beta", "largest": None}, "beta.*latents"),
        ({"likelihood": "bernoulli"}, r"likelihood 'bernoulli' needs numbers in \[0, 1\]"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(VaescopeError, match=words) as raised:
        searched(**options)
    assert "\n" not in str(raised.value)


def test_your_own_gap_must_return_a_number() -> None:
    with pytest.raises(ConfigurationError, match="the gap wordy"):
        searched(gap=wordy, threshold=1.0)


def wordy(evidence: Evidence) -> Any:
    return "much"


def found(*values: int, bounded: bool = True, stable: bool = True, over: str = "latents") -> Fondue:
    """A result made by hand."""
    answers, probes = [], []
    for seed, value in enumerate(values):
        gaps = tuple((size, 0.1 if size <= value else 1.5) for size in (value, value + 1) if size)
        search = SearchResult((value, value + 1 if bounded else None), gaps, 1.0)
        answers.append(Answer(seed, value, 2 + seed, stable, search))
        probes.extend(Probe(size, seed, 2, gap + 1, 1.0, gap) for size, gap in gaps)
    return Fondue(over, "trace", 1.0, tuple(answers), tuple(probes), 3, 2.7, 100, 50, 800, 1.5, {"name": "sprites"})


def test_the_interval_is_that_of_student() -> None:
    result = found(10, 11, 13, 10)
    expected = stats.t.interval(0.95, 3, loc=11, scale=stats.sem([10, 11, 13, 10]))
    assert result.interval == pytest.approx(expected)
    assert result.sd == pytest.approx(np.std([10, 11, 13, 10], ddof=1))
    assert found(0, 3).interval == (0.0, pytest.approx(1.5 + 12.7062 * 1.5, rel=1e-4))


def test_one_seed_has_no_interval_and_says_so() -> None:
    result = found(4)
    assert (result.mean, result.sd, result.interval) == (4, None, None)
    assert "1 seed; use more seeds" in result.summary()


@pytest.mark.parametrize(("values", "latents"), [((3, 4), 4), ((2, 3), 3), ((3, 3, 4), 3), ((3, 4, 4), 4), ((0,), 0)])
def test_the_mean_rounds_to_whole_latents_with_halves_up(values: tuple[int, ...], latents: int) -> None:
    assert found(*values).latents == latents


def test_the_table_of_a_result_is_valid_json() -> None:
    for result in (found(4), found(3, 5), searched(seeds=2)):
        table = json.loads(json.dumps(result.plain(), allow_nan=False))
        assert table["latents"] == result.latents
        assert table["seeds"] == result.rows()
        assert len(table["looks"]) == result.models == len(result.probes)
        assert table["summary"] == result.summary()


def test_rows_describe_each_seed() -> None:
    assert found(3, 5).rows() == [
        {"seed": 0, "latents": 3, "periods": 2, "stable": True, "bounded": True, "models": 2},
        {"seed": 1, "latents": 5, "periods": 3, "stable": True, "bounded": True, "models": 2},
    ]


def test_the_curve_averages_over_seeds_by_ascending_size() -> None:
    curve = found(3, 4).curve
    assert [row["latents"] for row in curve] == [3, 4, 5]
    assert [row["seeds"] for row in curve] == [1, 2, 1]
    assert (curve[1]["gap"], curve[1]["low"], curve[1]["high"]) == (pytest.approx(0.8), 0.1, 1.5)
    assert curve[1]["minuend"] - curve[1]["subtrahend"] == pytest.approx(0.8)


def test_the_summary_holds_the_number_its_spread_and_the_cost() -> None:
    text = found(3, 5).summary()
    assert text.startswith("4 latents for sprites (4 ± 1.4, 95% interval 0 to 16.7; trace gap, 2 seeds; 4 models")
    assert found(3, 5).epochs == 6


def test_the_summary_warns_of_unstable_and_unbounded_answers() -> None:
    assert "max_periods" in found(3, stable=False).summary()
    assert "max_periods" not in found(3).summary()
    open_ended = found(3, 6, bounded=False).summary()
    assert "never exceeds 1 up to 6" in open_ended
    assert "2 of 2 seeds" in open_ended
    twice = SearchResult((3, 4), ((3, 0.1), (4, 1.5), (5, 0.2)), 1.0)
    again = Fondue("latents", "trace", 1.0, (Answer(0, 3, 2, True, twice),), found(3).probes, 3, None, 9, 9, 9, 1.0)
    assert "not monotone" in again.summary()


def test_several_searches_share_their_models(tmp_path: Path) -> None:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=8, items=300)
    options = SearchOptions(**{**TINY, "runs": tmp_path})
    plain, strong = Question(), Question(objective=Beta(4.0))
    results = search_many(data, [plain, strong], options)
    for question, result in zip((plain, strong), results, strict=True):
        alone = searched(objective=question.objective)
        assert result.values == alone.values
        assert [probe.value for probe in result.probes] == [probe.value for probe in alone.probes]
        assert result.curve[0]["gap"] == pytest.approx(alone.curve[0]["gap"], rel=1e-4)
    assert search_many(data, [strong], options)[0].trained_steps == 0
    assert searched(runs=tmp_path).trained_steps == 0


def test_models_are_measured_by_all_gaps_for_later_searches(tmp_path: Path) -> None:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=8, items=300)
    options = SearchOptions(**{**TINY, "runs": tmp_path})
    gaps = {"few": IntrinsicDimension(k=5), "many": IntrinsicDimension(k=20)}
    first, same = search_many(data, [Question("few", init=2), Question("few", init=2)], options, gaps=gaps)
    assert (first.gap, first.values) == ("few", same.values)
    (later,) = search_many(data, [Question("many", init=2, threshold=100.0)], options, gaps=gaps)
    assert later.gap == "many"
    assert later.trained_steps < first.trained_steps


def test_objectives_of_different_classes_are_searched_in_turn() -> None:
    data = open_dataset("gaussian-manifold", dimension=2, ambient=8, items=300)
    questions = [Question(init=2), Question(objective="annealed", init=2)]
    results = search_many(data, questions, SearchOptions(**TINY))
    assert [result.settings["objective"]["name"] for result in results] == ["beta", "annealed"]


@pytest.mark.parametrize(
    ("questions", "words"),
    [([], "question"), ([Question(IntrinsicDimension(k=5)), Question("dimension")], "labels.*dimension")],
)
def test_impossible_searches_are_named(questions: list[Question], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        search_many(ONE_POINT, questions, SearchOptions(**TINY))
