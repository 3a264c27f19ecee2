"""Codes and factors of any kind: interpreted correctly, or refused in a sentence about the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from vaescope.codes import Representation
from vaescope.dimension import mle, twonn
from vaescope.errors import ConfigurationError, DataError, FactorTypeWarning, UnknownNameError
from vaescope.metrics import (
    METRICS,
    FactorGrid,
    Score,
    beta_vae,
    class_activation,
    dci,
    distance_to_orthogonality,
    effective_rank,
    explicitness,
    factor_vae,
    gaussian_wasserstein_correlation,
    hoyer,
    irs,
    mcc,
    meaning,
    metric_inputs,
    mig,
    mig_sup,
    modularity,
    sap,
    total_correlation,
    udr,
)
from vaescope.regime import downstream, mean_and_sampled
from vaescope.similarity import all_pairs, linear_cka, procrustes, rsa, sample_size_study, svcca

GENERATOR = np.random.default_rng(0)
ITEMS = 300
CODES = GENERATOR.standard_normal((ITEMS, 4))
FACTORS = GENERATOR.integers(0, 3, (ITEMS, 2))
FEW: dict[str, int] = {"train_votes": 100, "test_votes": 50}
EXAMPLES: dict[str, int] = {"train_examples": 100, "test_examples": 50}
NEED_EXAMPLES: dict[str, Callable[..., Score]] = {
    "dci": dci,
    "sap": sap,
    "explicitness": explicitness,
    "factor_vae": lambda *given, **options: factor_vae(*given, **FEW, **options),
    "beta_vae": lambda *given, **options: beta_vae(*given, **EXAMPLES, **options),
}


class Frame:
    """A data frame like those of pandas and polars: an array with column names."""

    def __init__(self, values: np.ndarray, columns: Sequence[str]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


def representation(codes: np.ndarray = CODES) -> Representation:
    mean = torch.from_numpy(codes)
    return Representation(mean, torch.full_like(mean, 0.1), mean, torch.from_numpy(FACTORS))


KINDS: dict[str, Any] = {
    "lists": CODES.tolist(),
    "a list of arrays": list(CODES),
    "a tensor with a gradient": torch.from_numpy(CODES).requires_grad_(),
    "a data frame": Frame(CODES, list("abcd")),
    "a nullable data frame": Frame(CODES.astype(object), list("abcd")),
    "a representation": representation(),
}
MEASURES: dict[str, Callable[[Any], float]] = {
    "mig": lambda codes: mig(codes, FACTORS).score,
    "hoyer": lambda codes: hoyer(codes).score,
    "effective_rank": effective_rank,
    "cka": lambda codes: linear_cka(codes, codes),
    "procrustes": lambda codes: procrustes(codes, CODES),
    "all pairs": lambda codes: float(all_pairs([codes, CODES[:, :2]])[0, 1]),
    "mle": lambda codes: mle(codes).dimension,
    "twonn": lambda codes: twonn(codes).dimension,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", MEASURES)
def test_arrays_of_all_kinds_have_the_same_score(measure: str, kind: str) -> None:
    assert MEASURES[measure](KINDS[kind]) == pytest.approx(MEASURES[measure](CODES), abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_bfloat16_and_booleans_are_read_as_numbers(measure: str) -> None:
    short = torch.from_numpy(CODES).bfloat16()
    assert MEASURES[measure](short) == pytest.approx(MEASURES[measure](short.double()), rel=1e-5)
    tiny = torch.from_numpy(CODES).to(torch.float8_e4m3fn)
    if measure not in ("mle", "twonn"):  # which need more distinct items
        assert MEASURES[measure](tiny) == pytest.approx(MEASURES[measure](tiny.double()), rel=1e-5)
        assert MEASURES[measure](CODES > 0) == pytest.approx(MEASURES[measure]((CODES > 0).astype(float)), abs=1e-12)


RAGGED = [torch.ones(2), torch.ones(3)]
REFUSED: dict[str, tuple[Any, str]] = {
    "none": (None, "NoneType"),
    "a sparse matrix": (csr_matrix(CODES), "dense.*csr_matrix"),
    "a sparse tensor": (torch.from_numpy(CODES).to_sparse(), "dense.*sparse"),
    "a meta tensor": (torch.from_numpy(CODES).to("meta"), "dense.*meta"),
    "a nested tensor": (torch.nested.as_nested_tensor(RAGGED, layout=torch.jagged), "dense.*nested"),
    "a masked array": (np.ma.masked_less(CODES, 0), "masked"),
    "a list of masked arrays": ([np.ma.masked_less(row, 0) for row in CODES], "masked"),
    "ragged lists": ([[1.0, 2.0], [3.0]], "lengths"),
    "a list of tensors that numpy cannot read": (list(torch.from_numpy(CODES).bfloat16()), "numpy"),
    "text": ([["a", "b"]] * ITEMS, "real numbers"),
    "complex numbers": (CODES * 1j, "real numbers"),
    "a missing value": (Frame(np.where(CODES > 2, None, CODES), list("abcd")), "real numbers"),
    "one column": (CODES[:, 0], r"\(300,\)"),
    "a grid": (FactorGrid(lambda items: CODES[items], (300,), ("item",)), "FactorGrid"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("measure", [name for name in MEASURES if name != "mig"])
def test_unreadable_input_is_refused_in_a_sentence(measure: str, kind: str) -> None:
    values, facts = REFUSED[kind]
    with pytest.raises(DataError, match=facts):
        MEASURES[measure](values)


@pytest.mark.parametrize("kind", REFUSED)
def test_the_error_names_the_argument_that_cannot_be_read(kind: str) -> None:
    values, facts = REFUSED[kind]
    with pytest.raises(DataError, match=rf"^codes must.*{facts}"):
        mig(values, FACTORS)
    if kind not in ("none", "one column"):
        with pytest.raises(DataError, match=rf"^factors must.*{facts}"):
            mig(CODES, values)


def test_one_latent_is_reshaped_and_a_grid_is_refused_by_metrics_that_do_not_sample() -> None:
    with pytest.raises(DataError, match="items x 1"):
        mig(CODES[:, 0], FACTORS)
    with pytest.raises(DataError, match=r"codes .* FactorGrid"):
        mig(REFUSED["a grid"][0])


def test_names_of_the_columns_of_a_data_frame_name_the_factors() -> None:
    found = mig(CODES, Frame(FACTORS, ["shape", "size"]))
    assert found.factors == ("shape", "size")
    assert found.score == mig(CODES, FACTORS).score
    assert mig(CODES, Frame(FACTORS, ["shape", "size"]), names=("a", "b")).factors == ("a", "b")
    assert mig(CODES, Frame(FACTORS.astype(object), ["shape", "size"])) == found
    predicted = downstream((CODES, CODES), ["active"] * 4, Frame(FACTORS, ["shape", "size"]))
    assert [target.name for target in predicted.targets] == ["shape", "size"]


def test_fractional_values_are_classes_on_request() -> None:
    values = np.arange(2000) % 40
    noise = GENERATOR.standard_normal((2, 2000))
    codes = np.c_[values + 0.1 * noise[0], noise[1]]
    whole = mig(codes, values)
    with pytest.warns(FactorTypeWarning):
        shares = mig(codes, values / 39)
    assert shares.score > whole.score + 0.1
    for chosen in (True, "factor 0", 0, ["factor 0"], [0]):
        assert mig(codes, values / 39, discrete=chosen).score == whole.score
    table = np.c_[values, values % 4]
    for name, metric in NEED_EXAMPLES.items():
        if name != "sap":  # which takes continuous factors
            with pytest.raises(DataError, match=r"'factor 1' is continuous.*discrete=\['factor 1'\]"):
                metric(codes, table / [1, 39], discrete=[])
        assert metric(codes, table / [1, 39], discrete=[1]).score == metric(codes, table).score


def test_whole_numbers_are_continuous_on_request() -> None:
    degrees = GENERATOR.integers(0, 500, 1000)
    codes = np.c_[degrees + GENERATOR.standard_normal(1000), GENERATOR.standard_normal(1000)]
    with pytest.warns(FactorTypeWarning):
        classes = mig(codes, degrees)
    angle = mig(codes, degrees, continuous=True)
    assert angle.score > 0.6 > 0.2 > classes.score
    assert angle.score == mig(codes, degrees + 0.5).score
    assert irs(codes, degrees, continuous=True).score == pytest.approx(irs(codes, degrees + 0.5).score, abs=1e-12)
    assert sap(codes, degrees, continuous=["factor 0"]).score > 0.9


def test_a_factor_of_ambiguous_type_is_named_with_the_keywords_that_decide_it() -> None:
    shares = (np.arange(1000) % 40) / 39
    codes, table = GENERATOR.standard_normal((1000, 2)), np.c_[np.arange(1000) % 7, shares]
    with pytest.warns(FactorTypeWarning) as met:
        mig(codes, Frame(table, ["shape", "orientation"]))
    (warning,) = met
    assert str(warning.message) == (
        "'orientation' is treated as continuous, but its 40 different values may be classes. "
        "Pass discrete=['orientation'] if they are, or continuous=['orientation'] to confirm."
    )
    with pytest.warns(FactorTypeWarning, match=r"'angle' .* classes, but its 500 .* Pass continuous=\['angle'\] if"):
        mig(codes, np.arange(1000) % 500, names=["angle"])


def test_a_factor_whose_type_was_given_or_is_clear_raises_no_warning() -> None:
    # Warnings are errors in these tests.
    codes = GENERATOR.standard_normal((1000, 2))
    shares, degrees = (np.arange(1000) % 40) / 39, np.arange(1000) % 500
    for chosen in ("factor 0", True, []):
        mig(codes, shares, discrete=chosen)
        mig(codes, shares, continuous=chosen)
        mig(codes, degrees, discrete=chosen)
        mig(codes, degrees, continuous=chosen)
    for clear in (codes[:, 0], degrees % 100, np.round(codes[:, 0], 2), codes[:, 0] > 0):
        mig(codes, clear)
    mean = torch.from_numpy(codes)
    mig(Representation(mean, torch.full_like(mean, 0.1), mean, torch.from_numpy(degrees[:, None])))
    mcc(codes, np.c_[shares, degrees])


def test_factor_numbers_refer_to_the_columns_that_were_passed() -> None:
    constant = torch.zeros(ITEMS, 1, dtype=torch.int64)
    whole = replace(representation(), factors=torch.cat([constant, torch.from_numpy(FACTORS)], 1))
    assert metric_inputs(whole, continuous=[2]).discrete == (True, False)
    assert metric_inputs(whole, continuous="factor 1").discrete == (False, True)


def test_the_choice_of_factors_is_checked() -> None:
    with pytest.raises(UnknownNameError, match=r"discrete .*'size'.*Did you mean"):
        mig(CODES, FACTORS, names=("shape", "sizes"), discrete="size")
    wrong: Any
    for wrong in (2, [2], 1.5, [[1]], None, "factor", [True, False], np.array([True, False])):
        with pytest.raises(UnknownNameError, match=r"^continuous must be one of"):
            mig(CODES, FACTORS, continuous=wrong)
    assert mig(CODES, FACTORS, continuous=np.array([0, 1])) == mig(CODES, FACTORS, continuous=True)
    with pytest.raises(ConfigurationError, match="'factor 1' as both"):
        mig(CODES, FACTORS, continuous=True, discrete=[1])
    with pytest.raises(UnknownNameError, match=r"rare .*'skip'"):
        mig(CODES, FACTORS, rare="skip")


@pytest.mark.parametrize("name", NEED_EXAMPLES)
def test_rare_classes_are_dropped_or_merged_on_request(name: str) -> None:
    factors, metric = 10 * (FACTORS + 1), NEED_EXAMPLES[name]
    factors[7, 0] = 50
    with pytest.raises(DataError, match=r"class 50 of 'factor 0' has 1.*rare='drop'"):
        metric(CODES, factors)
    kept = np.arange(ITEMS) != 7
    dropped = metric(CODES, factors, rare="drop")
    assert dropped.score == metric(CODES[kept], factors[kept]).score
    assert (dropped.parts["rare_classes"], dropped.parts["rare_items"]) == (1, 1)
    assert metric(CODES, factors, rare="merge", half_samples=2).interval is not None


def test_rare_classes_are_merged_and_a_single_one_joins_the_next_rarest() -> None:
    common = np.repeat([0, 1, 2], [4, 3, 5])
    codes = np.arange(14.0)[:, None]
    both = metric_inputs(codes, np.r_[common, 7, 8], rare="merge")
    assert np.bincount(both.classes[:, 0]).tolist() == [4, 3, 5, 2]
    assert (both.rare_classes, both.rare_items) == (2, 2)
    single = metric_inputs(codes[:13], np.r_[common, 7], rare="merge")
    assert sorted(np.bincount(single.classes[:, 0])) == [4, 4, 5]
    assert (single.rare_classes, single.rare_items) == (1, 1)


def test_dropping_items_of_rare_classes_drops_classes_that_become_rare() -> None:
    first = np.r_[np.zeros(6), np.ones(6), 2]
    second = np.r_[np.zeros(5), np.ones(5), np.zeros(1), 2, 2]
    data = metric_inputs(np.arange(13.0)[:, None], np.c_[first, second], rare="drop")
    assert len(data) == 11
    assert (data.rare_classes, data.rare_items) == (1, 2)
    with pytest.raises(DataError, match=r"'factor 0'.*rare classes"):
        metric_inputs(np.arange(5.0)[:, None], np.arange(5), rare="drop")
    with pytest.raises(DataError, match=r"'factor 0'.*rare classes"):
        metric_inputs(np.arange(5.0)[:, None], np.r_[0, 0, 0, 0, 1], rare="merge")


def test_without_rare_classes_nothing_changes() -> None:
    found = dci(CODES, FACTORS)
    for way in ("drop", "merge"):
        same = dci(CODES, FACTORS, rare=way)
        assert (same.score, same.parts["rare_items"]) == (found.score, 0)
    assert "rare_items" not in found.parts


def test_messages_have_the_original_values() -> None:
    with pytest.raises(DataError, match="class 30 of 'factor 0' has 1"):
        dci(np.tile(CODES[:7], (1, 1)), np.c_[[10, 10, 20, 20, 30, 20, 10], FACTORS[:7, 0] * 0 + np.arange(7) % 2])


def test_large_whole_numbers_that_round_to_one_float_stay_two_classes() -> None:
    factors = np.where(FACTORS[:, 0] > 0, 2**53, 2**53 + 1)
    assert mig(CODES, factors).score == mig(CODES, (FACTORS[:, 0] == 0).astype(int)).score


@pytest.mark.parametrize("bins", [0, -3, 1, 2.5, "20", 100_000, None, True])
@pytest.mark.parametrize("metric", [mig, mig_sup, modularity, meaning, irs])
def test_bins_are_whole_numbers_of_at_least_2(metric: Callable[..., Any], bins: object) -> None:
    with pytest.raises(ConfigurationError, match=r"bins must be a whole number from 2"):
        metric(CODES, FACTORS, bins=bins)


@pytest.mark.parametrize("seed", [-1, "a", 0.5, None, 2**80])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    grid = FactorGrid(lambda items: CODES[items], (20, 15), ("shape", "size"))
    calls: list[Callable[[], object]] = [
        lambda: sap(CODES, FACTORS, seed=seed),
        lambda: hoyer(CODES, seed=seed),
        lambda: factor_vae(grid, **FEW, seed=seed),
        lambda: irs(grid, seed=seed),
        lambda: udr([representation()] * 2, seed=seed),
        lambda: distance_to_orthogonality(torch.nn.Linear(4, 6), CODES, seed=seed),
        lambda: rsa(CODES, CODES, seed=seed),
        lambda: sample_size_study(CODES, CODES, seed=seed),
        lambda: mle(CODES, seed=seed),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="seed must be a whole number from 0"):
            call()


def test_a_seed_of_64_bits_is_accepted_although_scikit_learn_takes_32() -> None:
    assert 0 <= dci(CODES, FACTORS, protocol="dlib", seed=2**40).score <= 1


def test_a_variance_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="variance"):
        svcca(CODES, CODES, variance="x")


def test_an_unknown_keyword_is_a_type_error_of_the_metric_itself() -> None:
    with pytest.raises(TypeError, match=r"^mig\(\) got an unexpected keyword argument 'num_bins'$"):
        mig(CODES, FACTORS, num_bins=20)


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS.entry(name).factors])
def test_help_explains_every_option(name: str) -> None:
    metric = METRICS[name]
    explained = inspect.getdoc(metric) or ""
    for option in ("names", "discrete", "continuous", "rare", "exclude", "types", "half_samples", "scale", "seed"):
        assert f"{option}: " in explained
        assert option in inspect.signature(metric).parameters


def test_documentation_names_the_comparable_implementations() -> None:
    assert "not comparable with" in (inspect.getdoc(dci) or "")
    assert "not comparable" in dci(CODES, FACTORS).estimator
    assert "not comparable" not in dci(CODES, FACTORS, protocol="dlib").estimator
    # disentanglement_lib standardises too.
    assert "not in" not in (explicitness.__doc__ or "").partition("standardised")[2].partition(",")[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_codes_whose_squares_overflow_give_no_silent_nan() -> None:
    for scale in (1e300, 1e-300):
        with pytest.raises(DataError, match="Rescale"):
            hoyer(scale * CODES)
    for dependence in (total_correlation, gaussian_wasserstein_correlation):
        with pytest.raises(DataError, match="Rescale"):
            dependence(1e300 * CODES)


def test_udr_compares_a_list_of_models() -> None:
    for models in (None, representation(), 3):
        with pytest.raises(DataError, match="must be a list"):
            udr(models)


def test_a_score_can_be_used_as_a_number() -> None:
    found = mig(CODES, FACTORS)
    assert float(found) == found.score
    assert f"{found:.3f}" == f"{found.score:.3f}"
    assert f"{found}" == str(found)


def test_decoders_that_cannot_be_differentiated_are_refused() -> None:
    with pytest.raises(DataError, match=r"codes .*nan for item 0, latent 0"):
        distance_to_orthogonality(torch.nn.Linear(4, 6), np.full((5, 4), np.nan))
    with pytest.raises(DataError, match="tensors of 3 latents"):
        distance_to_orthogonality(torch.nn.Linear(4, 6), CODES[:, :3])
    with pytest.raises(DataError, match=r"decoder must .* torch"):
        distance_to_orthogonality(lambda z: np.tanh(z.numpy()), CODES)
    with pytest.raises(DataError, match=r"decoder must .* torch"):
        distance_to_orthogonality(lambda z: torch.from_numpy(z.detach().numpy() ** 2), CODES)
    linear = torch.nn.Linear(4, 6).double()
    for hidden in (
        torch.no_grad()(linear.forward),
        lambda z: linear(z.detach()),
        torch.inference_mode()(linear.forward),
    ):
        with pytest.raises(DataError, match="decoder must pass gradients"):
            distance_to_orthogonality(hidden, CODES)
    with pytest.raises(DataError, match="decoder must return a tensor"):
        distance_to_orthogonality(lambda z: np.ones((1, 4)), CODES)


def test_messages_have_the_name_of_the_argument() -> None:
    for sources in (CODES[:9], [[1.0], [2.0, 3.0]], "a"):
        with pytest.raises(DataError, match=r"^sources must"):
            mcc(CODES, sources)
    with pytest.raises(DataError, match="Pass sources"):
        mcc(CODES)
    with pytest.raises(DataError, match=r"^labels must"):
        class_activation(CODES, np.full(ITEMS, np.nan))


def test_representations_are_taken_by_functions_of_codes_and_sources() -> None:
    assert mcc(representation(), CODES).score == pytest.approx(1)
    labels = FACTORS[:, 0]
    assert class_activation(CODES.tolist(), labels.tolist()).score == class_activation(CODES, labels).score
    with pytest.raises(ConfigurationError, match="bins"):
        mean_and_sampled(representation(), ["active"] * 4, bins=0)
