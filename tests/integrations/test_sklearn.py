"""The transformer: scikit-learn's own checks, pipelines and searches, and the numbers of a fit."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import vaescope as vs
from vaescope.data.arrays import MAX_FLOAT32
from vaescope.errors import ConfigurationError, DataError, UnknownNameError, VaescopeError
from vaescope.objectives import Beta

NET = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}
QUICK: dict[str, Any] = {"net": NET, "steps": 10, "batch": 16, "device": "cpu", "random_state": 0}
FEATURES, ITEMS = 6, 120
RANDOM = np.random.default_rng(0)
# Items of two dimensions in six features, and a class that depends on both.
HIDDEN = RANDOM.standard_normal((ITEMS, 2))
TABLE = HIDDEN @ RANDOM.standard_normal((2, FEATURES)) + 0.05 * RANDOM.standard_normal((ITEMS, FEATURES))
CLASSES = (HIDDEN.sum(1) > 0).astype(int)
SCALED = StandardScaler().fit_transform(TABLE)
IMAGES = RANDOM.random((20, 16))


def quick(latents: int | str = 2, **options: Any) -> vs.VAETransformer:
    return vs.VAETransformer(latents, **{**QUICK, **options})


@pytest.fixture(scope="module")
def learned() -> vs.VAETransformer:
    return quick(steps=300, learning_rate=1e-2).fit(SCALED)


@pytest.mark.filterwarnings("ignore::vaescope.errors.ScaleWarning")  # some checks have features of mean 100
@parametrize_with_checks([quick(1, steps=5), quick(2, steps=5)])
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, one check does nothing
    check(estimator)


def test_items_of_few_dimensions_come_back(learned: vs.VAETransformer) -> None:
    codes = learned.transform(SCALED)
    assert codes.shape == (ITEMS, 2)
    error = np.mean((learned.inverse_transform(codes) - SCALED) ** 2)
    assert error < 0.02  # the features have variance 1


def test_training_raises_the_score(learned: vs.VAETransformer) -> None:
    assert learned.score(SCALED) > quick().fit(SCALED).score(SCALED) + 1


def test_the_score_is_the_mean_lower_bound(learned: vs.VAETransformer) -> None:
    single = SCALED.astype(np.float32)
    assert learned.score(single) == float(vs.encoding.lower_bound(learned.model_, single).mean())
    assert learned.score(SCALED) == pytest.approx(learned.score(single), rel=1e-4)


@pytest.mark.parametrize("output", ["mean", "sample"])
def test_codes_are_those_of_a_run_with_the_same_settings(output: str, tmp_path: Path) -> None:
    single = SCALED.astype(np.float32)
    settings = {"net": NET, "steps": 10, "batch": 16, "device": "cpu", "learning_rate": 1e-3}
    run = vs.fit(single, 2, objective="beta", seed=3, held_out=0, runs=tmp_path, **settings)
    vae = vs.VAETransformer(2, objective="beta", random_state=3, output=output, **settings).fit(single)
    expected = getattr(vs.encode(run.model, single, seed=3), output)
    np.testing.assert_array_equal(vae.transform(single), expected.numpy())
    assert vae.history_ == run.history


def test_nothing_is_written_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vae = quick().fit(SCALED)
    assert vae.run_ is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_runs_keeps_the_model_and_reuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, memory = quick(runs=tmp_path).fit(SCALED), quick().fit(SCALED)
    assert [run.id for run in vs.Store(tmp_path).runs()] == [kept.run_.id]
    np.testing.assert_array_equal(kept.transform(SCALED), memory.transform(SCALED))
    assert kept.history_ == memory.history_
    monkeypatch.setattr(vs.training.Trainer, "advance", lambda *_: pytest.fail("it trained again"))
    again = quick(runs=tmp_path).fit(SCALED)
    np.testing.assert_array_equal(again.transform(SCALED), memory.transform(SCALED))


def test_a_pipeline_classifies_from_codes() -> None:
    vae = quick(steps=150, learning_rate=1e-2)
    pipeline = make_pipeline(StandardScaler(), vae, LogisticRegression()).fit(TABLE, CLASSES)
    assert pipeline.score(TABLE, CLASSES) > 0.9
    assert list(pipeline[:-1].get_feature_names_out()) == ["vaetransformer0", "vaetransformer1"]


def test_one_column_transformer_encodes_some_columns_and_passes_others() -> None:
    found = ColumnTransformer([("vae", quick(), [0, 1, 2])], remainder="passthrough").fit(TABLE)
    assert list(found.get_feature_names_out()) == [
        "vae__vaetransformer0",
        "vae__vaetransformer1",
        *(f"remainder__x{column}" for column in (3, 4, 5)),
    ]


def test_a_grid_search_in_two_processes_finds_the_better_parameters() -> None:
    grid = {"learning_rate": [1e-6, 1e-2], "objective": [Beta(1.0)]}
    search = GridSearchCV(quick(steps=40), grid, cv=2, n_jobs=2, error_score="raise").fit(SCALED)
    get_reusable_executor().shutdown()
    assert search.best_params_ == {"learning_rate": 1e-2, "objective": Beta(1.0)}
    half = ITEMS // 2
    alone = clone(search.best_estimator_).fit(SCALED[half:]).score(SCALED[:half])
    assert search.cv_results_["split0_test_score"][search.best_index_] == pytest.approx(alone, rel=1e-6)


def test_one_row_and_equal_rows_have_codes(learned: vs.VAETransformer) -> None:
    codes = learned.transform(SCALED)
    np.testing.assert_allclose(learned.transform(SCALED[4:5]), codes[4:5], rtol=1e-12)
    np.testing.assert_allclose(learned.transform(np.zeros((3, FEATURES))).std(0), 0, atol=1e-15)
    assert learned.inverse_transform(codes[:1]).shape == (1, FEATURES)
    assert np.isfinite(learned.score(SCALED[:1]))


def test_samples_depend_only_on_the_seed_and_the_position(learned: vs.VAETransformer) -> None:
    sampling = copy.deepcopy(learned).set_params(output="sample")
    codes = sampling.transform(SCALED)
    np.testing.assert_array_equal(codes, sampling.transform(SCALED))
    assert not np.allclose(codes, learned.transform(SCALED), atol=1e-3)
    np.testing.assert_allclose(sampling.transform(SCALED[:5]), codes[:5], rtol=1e-12)


def test_a_seed_repeats_the_training_and_a_generator_does_not() -> None:
    codes = [quick(random_state=seed).fit(SCALED).transform(SCALED) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert not np.allclose(codes[0], codes[2])
    generator = np.random.RandomState(0)
    first, second = (quick(random_state=generator).fit(SCALED).transform(SCALED) for _ in range(2))
    assert not np.allclose(first, second)


@pytest.mark.parametrize("shape", [(1, 4, 4), (4, 4), [1, 4, 4]])
def test_images_are_rows_of_pixels(shape: Any) -> None:
    vae = quick(shape=shape).fit(IMAGES)
    assert vae.model_.item_shape == (1, 4, 4)
    codes = vae.transform(IMAGES)
    single = IMAGES.astype(np.float32)
    expected = vs.encode(vae.model_, single.reshape(-1, 1, 4, 4)).mean
    np.testing.assert_array_equal(vae.transform(single), expected.numpy())
    items = vae.inverse_transform(codes)
    assert items.shape == IMAGES.shape
    assert items.min() > 0  # those of a Bernoulli likelihood are probabilities
    assert items.max() < 1


def test_pixels_of_several_channels_keep_their_order() -> None:
    table = RANDOM.random((20, 18)).astype(np.float32)
    vae, images = quick(shape=(3, 2, 3)).fit(table), table.reshape(-1, 3, 2, 3)
    np.testing.assert_array_equal(vae.transform(table), vs.encode(vae.model_, images).mean.numpy())
    items = vs.encoding.reconstruct(vae.model_, images).numpy()
    np.testing.assert_array_equal(vae.inverse_transform(vae.transform(table)).reshape(-1, 3, 2, 3), items)


@pytest.mark.parametrize(
    ("shape", "table", "facts"),
    [
        ((1, 4, 4), IMAGES * 16, r"pixels must lie in \[0, 1\].*MinMaxScaler"),
        ((1, 4, 4), IMAGES - 1, r"pixels must lie in \[0, 1\]"),
        ((1, 5, 5), IMAGES, "25 pixels, X has 16 features"),
        ((2, 2, 4), IMAGES, r"1 or 3 channels.*\(2, 2, 4\)"),
        ((16,), IMAGES, "shape must be"),
        ((4, 4.0), IMAGES, "shape must be"),
    ],
)
def test_a_shape_that_does_not_fit_is_named(shape: Any, table: np.ndarray, facts: str) -> None:
    with pytest.raises(VaescopeError, match=facts):
        quick(shape=shape).fit(table)


def test_pixels_out_of_range_are_refused_after_training() -> None:
    with pytest.raises(DataError, match=r"pixels must lie in \[0, 1\], got 0..2"):
        quick(shape=(4, 4)).fit(IMAGES).transform(np.linspace(0, 2, 16)[None])


def test_a_search_finds_the_number_of_latents_and_trains_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search = {"seeds": 1, "init": 2, "largest": 3, "period": 20, "max_periods": 1, "learning_rate": 1e-2}
    vae = quick("fondue", objective=Beta(0.5), fondue_options=search).fit(SCALED)
    alone = vs.fondue(SCALED, objective=Beta(0.5), net=NET, held_out=0, device="cpu", runs=None, **search)
    assert vae.n_latents_ == vae.fondue_.latents == alone.latents
    assert vae.fondue_.curve == alone.curve
    assert vae.transform(SCALED).shape == (ITEMS, alone.latents)
    assert list(tmp_path.iterdir()) == []
    assert quick().fit(SCALED).fondue_ is None


def test_data_that_keep_no_latent_in_use_are_an_error() -> None:
    search = {"seeds": 1, "init": 1, "period": 5, "max_periods": 1, "threshold": -1.0}
    with pytest.raises(DataError, match="no latent stays in use"):
        quick("fondue", fondue_options=search).fit(SCALED)


def test_options_of_the_search_do_not_change_the_model() -> None:
    with pytest.raises(TypeError, match="multiple values for keyword argument 'net'"):
        quick("fondue", fondue_options={"net": "affine"}).fit(SCALED)


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"latents": 0}, ConfigurationError, "latents.*'fondue'.*at least 1, got 0"),
        ({"latents": "many"}, ConfigurationError, "latents.*'fondue'.*got 'many'"),
        ({"latents": 7}, ValueError, r"6 feature\(s\).*minimum of 7"),
        ({"output": "means"}, UnknownNameError, "output must be one of mean, sample; got 'means'"),
        ({"epochs": 2}, ConfigurationError, "steps or epochs"),
        ({"objective": "betta"}, UnknownNameError, "Did you mean 'beta'"),
        ({"random_state": -1}, ConfigurationError, "seed"),
        ({"likelihood": "bernoulli"}, DataError, "needs numbers in"),
    ],
)
def test_a_parameter_out_of_range_is_named_by_fit(options: dict[str, Any], error: type[Exception], facts: str) -> None:
    vae = quick().set_params(**options)
    with pytest.raises(error, match=facts):
        vae.fit(SCALED)
    with pytest.raises(NotFittedError):
        vae.transform(SCALED)


def test_codes_of_another_width_and_numbers_too_large_are_refused(learned: vs.VAETransformer) -> None:
    with pytest.raises(DataError, match="must have 2 latents, got 3 columns"):
        learned.inverse_transform(np.zeros((4, 3)))
    with pytest.raises(DataError, match="above 3e38"):
        learned.transform(np.full((2, FEATURES), 2 * MAX_FLOAT32))


def test_a_pickle_has_no_torch_and_gives_the_same_codes(learned: vs.VAETransformer, tmp_path: Path) -> None:
    content = pickle.dumps(learned)
    assert b"torch" not in content
    joblib.dump(learned, tmp_path / "vae.joblib")
    mapped = joblib.load(tmp_path / "vae.joblib", mmap_mode="r")
    for other in (pickle.loads(content), mapped, copy.deepcopy(learned)):
        np.testing.assert_array_equal(other.transform(SCALED), learned.transform(SCALED))
        assert other.score(SCALED) == learned.score(SCALED)
        assert other.history_ == learned.history_
        assert not other.model_.training


def test_a_pickle_of_a_kept_run_holds_its_path_alone(tmp_path: Path) -> None:
    vae = quick(runs=tmp_path).fit(SCALED)
    content = pickle.dumps(vae)
    assert b"torch" not in content
    assert pickle.loads(content).run_.id == vae.run_.id


def test_double_precision_is_trained_and_encoded() -> None:
    vae = quick(precision="float64").fit(SCALED)
    assert next(vae.model_.parameters()).dtype == torch.float64
    assert vae.transform(SCALED.astype(np.float32)).dtype == np.float32


def test_its_model_can_be_diagnosed(learned: vs.VAETransformer) -> None:
    assert len(vs.diagnose(learned.model_, SCALED).types.types) == 2


def test_codes_become_a_data_frame_if_asked() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(SCALED, columns=list("abcdef"))
    vae = quick().set_output(transform="pandas").fit(frame)
    assert list(vae.feature_names_in_) == list("abcdef")
    assert list(vae.transform(frame).columns) == ["vaetransformer0", "vaetransformer1"]
