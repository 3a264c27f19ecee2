"""Standardised models speak the units of the data, and missing values leave no trace in training."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, DataError, NonFiniteError, ScaleWarning
from vaescope.likelihoods.units import ItemUnits
from vaescope.models import MODELS, Architecture
from vaescope.numerics.moments import Spread
from vaescope.runs.configuration import Configuration
from vaescope.training import Member, Plan, Trainer

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
GAUSSIAN = {"name": "gaussian", "variance": 0.3, "learned": True}
SCALES = torch.tensor([1e4, 1e-4, 1.0, 300.0, 0.02])
SHIFTS = torch.tensor([2e4, -3e-4, 0.0, 50.0, 0.0])


@pytest.fixture(scope="module")
def unit() -> np.ndarray:
    """Items of two latents and a little noise, of a scale of about 1."""
    draw = np.random.default_rng(3)
    rows = draw.standard_normal((120, 2)) @ draw.standard_normal((2, 5)) + 0.1 * draw.standard_normal((120, 5))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def raw(unit: np.ndarray) -> np.ndarray:
    """The same items in units of their own."""
    found: np.ndarray = unit * SCALES.numpy() + SHIFTS.numpy()
    return found


@pytest.fixture(scope="module")
def holed(raw: np.ndarray) -> np.ndarray:
    """Every fifth cell is missing."""
    found = raw.copy()
    found[np.random.default_rng(4).random(raw.shape) < 0.2] = np.nan
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(raw: np.ndarray, folder: Path) -> vs.Run:
    data = vs.open_dataset(raw, standardise=True)
    return vs.fit(data, 3, net=NET, likelihood=GAUSSIAN, steps=60, learning_rate=1e-2, batch=32, runs=folder)


def trainer(data: Dataset, members: list[Member], precision: str = "float32", **parts: object) -> Trainer:
    given = {"net": NET, "likelihood": GAUSSIAN, **parts}
    architecture = Architecture(**given, standardise=data.standardise, missing=data.missing)  # type: ignore[arg-type]
    plan = Plan(steps=12, batch=16, precision=precision, log_every=6, evaluate_every=6)
    return Trainer(architecture, members, plan, data)


def statistics(rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column, by numpy."""
    exact = rows.astype(np.float64)
    return torch.from_numpy(np.nanmean(exact, 0)).float(), torch.from_numpy(np.nanstd(exact, 0)).float()


def relative(found: Tensor, wanted: Tensor, scale: Tensor) -> float:
    return float(((found - wanted).abs() / scale).max())


class TestUnits:
    def test_the_parts_see_standardised_items_and_everything_outside_is_in_the_units_of_the_data(
        self, run: vs.Run, raw: np.ndarray
    ) -> None:
        model = run.model
        training, _ = vs.open_dataset(raw).split()
        mean, scale = statistics(training.batch(torch.arange(len(training))).numpy())
        x = torch.from_numpy(raw)
        inside = (x - mean) / scale
        with torch.no_grad():
            codes = model.posterior(model.encoder(inside), model.latent_mask).mean
            decoded = model.decoder(codes) * scale + mean
        assert relative(run.encode(raw).mean, codes, torch.ones(())) < 1e-5
        assert relative(run.reconstruct(raw), decoded, scale) < 1e-5
        # Far from the numbers inside: a wrong unit would differ by orders of magnitude.
        assert relative(inside, x, torch.ones(())) > 1e3

    def test_samples_and_traversals_are_in_the_units_of_the_data(self, run: vs.Run, raw: np.ndarray) -> None:
        mean, scale = statistics(raw)
        assert relative(run.sample(64), mean, scale) < 10
        moved = torch.as_tensor(np.stack([one.items for one in run.traverse(raw).usual]))
        assert relative(moved, mean, scale) < 10

    def test_the_log_likelihood_is_the_density_of_the_raw_numbers(self, run: vs.Run, raw: np.ndarray) -> None:
        model = run.model.double()
        x = torch.from_numpy(raw).double()
        with torch.no_grad():
            found = model.decode(torch.zeros(len(x), 3))
            deviation = torch.exp(0.5 * model.likelihood.log_variance) * model.units.scale
            mean = model.units.mean + model.units.scale * model.decoder(torch.zeros(1, 3).double())
            by_hand = torch.distributions.Normal(mean, deviation)
        torch.testing.assert_close(found.log_prob(x), by_hand.log_prob(x).sum(1), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found.variance, (deviation**2).expand(len(x), -1))
        drawn = found.sample(torch.ones(len(x), 5).double())
        torch.testing.assert_close(drawn, (by_hand.mean + deviation).expand(len(x), -1))
        run.model.float()

    def test_onnx_files_take_and_give_the_units_of_the_data(self, run: vs.Run, raw: np.ndarray, tmp_path: Path) -> None:
        ort = pytest.importorskip("onnxruntime")
        vs.export(run, tmp_path, data=raw, tolerance=1e-5)
        _, scale = statistics(raw)
        mean, _ = ort.InferenceSession(tmp_path / "encoder.onnx").run(None, {"x": raw})
        (decoded,) = ort.InferenceSession(tmp_path / "decoder.onnx").run(None, {"z": mean})
        assert relative(torch.from_numpy(mean), run.encode(raw).mean, torch.ones(())) < 1e-5
        assert relative(torch.from_numpy(decoded), run.reconstruct(raw), scale) < 1e-5

    def test_items_of_any_scale_train_alike(self, unit: np.ndarray) -> None:
        # Powers of two change no digit.
        scales = np.array([2.0**13, 2.0**-13, 1, 2, 1])
        curves = []
        for rows in (unit, unit * scales):
            training = trainer(vs.open_dataset(rows, standardise=True), [Member(2, learning_rate=1e-2)])
            curves.append([row.values["loss"] for _ in range(2) for row in training.advance() if row.split == "train"])
        np.testing.assert_allclose(np.subtract(curves[1], curves[0]), np.log(scales).sum(), atol=1e-5)

    def test_a_constant_dimension_keeps_its_scale(self, unit: np.ndarray) -> None:
        rows = unit.copy()
        rows[:, 2] = 0.1
        units = trainer(vs.open_dataset(rows, standardise=True), [Member(2)]).model().units
        assert units is not None
        assert units.scale[2] == 1
        assert units.mean[2] == pytest.approx(0.1)

    def test_a_signal_has_one_scale_for_each_channel(self) -> None:
        signals = torch.randn(50, 2, 7, generator=torch.Generator().manual_seed(0)) * torch.tensor([[100.0], [0.01]])
        units = ItemUnits((2, 7), standardise=True, missing="mask")
        signals[3, 1, :4] = torch.nan
        units.fit_items(Spread.of_known(signals.flatten(1)))
        known = signals.double().transpose(0, 1).flatten(1).numpy()
        np.testing.assert_allclose(units.mean.flatten(), np.nanmean(known, 1), rtol=1e-6)
        np.testing.assert_allclose(units.scale.flatten(), np.nanstd(known, 1), rtol=1e-6)
        assert units.inside(signals)[3, 1, :4].tolist() == [0, 0, 0, 0]

    @pytest.mark.parametrize("model", ["autoencoder", "vgon"])
    def test_other_models_train_in_the_units_of_the_data(self, raw: np.ndarray, model: str) -> None:
        posterior = MODELS[model].default_posterior
        parts = {"model": model, "posterior": posterior}
        training = trainer(vs.open_dataset(raw, standardise=True), [Member(2)], "bfloat16", **parts)
        (row,) = [row for row in training.advance() if row.split == "train"]
        own = row.values["reconstruction"]
        assert isinstance(own, float)
        # Inside, the density of standardised items is about that of a standard Gaussian.
        assert own - float(statistics(raw)[1].log().sum()) < 20

    def test_bfloat16_keeps_the_statistics_of_items(self, raw: np.ndarray) -> None:
        training = trainer(vs.open_dataset(raw + 1e6, standardise=True), [Member(2)], "bfloat16")
        training.advance()
        units = training.model().units
        assert units is not None
        mean, scale = statistics((raw + 1e6).astype(np.float32))
        torch.testing.assert_close(units.mean, mean)
        torch.testing.assert_close(units.scale, torch.where(scale > 1e-5, scale, 1))


class TestTraining:
    @pytest.mark.parametrize("missing", [None, "mask"])
    def test_a_member_of_an_ensemble_equals_the_model_alone(
        self, raw: np.ndarray, holed: np.ndarray, missing: str | None
    ) -> None:
        data = vs.open_dataset(raw if missing is None else holed, standardise=True, missing=missing)
        members = [Member(2, seed=0), Member(3, seed=1)]
        together = trainer(data, members, "float64")
        alone = [trainer(data, [member], "float64") for member in members]
        for one in (together, *alone):
            while not one.finished:
                one.advance()
        for position, one in enumerate(alone):
            ours, theirs = together.model(position).state_dict(), one.model().state_dict()
            for name, value in theirs.items():
                torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9)

    def test_a_run_resumes_bit_for_bit_and_opens_with_its_units(self, holed: np.ndarray, tmp_path: Path) -> None:
        data = vs.open_dataset(holed, standardise=True, missing="mask")
        options = {"net": NET, "batch": 32, "log_every": 10, "evaluate_every": 10, "monitor_every": 0}
        short = vs.fit(data, 2, steps=10, runs=tmp_path / "a", **options)
        resumed = vs.resume(short, 20)
        whole = vs.fit(data, 2, steps=20, runs=tmp_path / "b", **options)
        assert resumed.id == whole.id
        for name, value in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], value), name
        assert {"units.mean", "units.scale"} <= whole.model.state_dict().keys()

    def test_the_id_depends_on_the_options_of_the_data_and_defaults_are_no_part_of_it(self, raw: np.ndarray) -> None:
        ids, plain = set(), []
        for options in ({}, {"standardise": True}, {"missing": "mask"}):
            data = vs.open_dataset(raw, **options)
            with pytest.warns(ScaleWarning) if not data.standardise else nullcontext():
                (configuration,) = vs.FitOptions(net=NET).configurations(data, [Member(2)])
            assert Configuration.from_plain(configuration.plain()) == configuration
            ids.add(configuration.id)
            plain.append(configuration.plain()["architecture"])
        assert len(ids) == 3
        assert not {"standardise", "missing"} & plain[0].keys()

    def test_training_from_a_standardised_run_keeps_its_units(self, run: vs.Run, raw: np.ndarray, folder: Path) -> None:
        tuned = vs.fit(raw[:60], start=run, steps=2, batch=16, runs=folder)
        assert tuned.configuration.architecture.standardise
        for name in ("units.mean", "units.scale"):
            assert torch.equal(tuned.model.state_dict()[name], run.model.state_dict()[name])

    def test_a_pruned_run_keeps_its_units(self, run: vs.Run, raw: np.ndarray) -> None:
        pruned = vs.prune(run, keep=[0, 1, 2], data=raw)
        assert torch.equal(pruned.run.reconstruct(raw), run.reconstruct(raw))

    def test_a_factory_trains_on_standardised_items(self, raw: np.ndarray, tmp_path: Path) -> None:
        data = vs.open_dataset(raw, standardise=True)
        found = vs.fit(data, 2, model=own, steps=40, learning_rate=1e-2, runs=tmp_path)
        mean, scale = statistics(raw)
        assert relative(found.reconstruct(raw), mean, scale) < 10
        assert vs.load(found.id, runs=tmp_path).configuration.architecture.standardise

    def test_scikit_learn_gets_items_in_its_units_back(self, holed: np.ndarray) -> None:
        vae = vs.VAETransformer(2, net=NET, steps=30, standardise=True, missing="mask", random_state=0)
        back = vae.inverse_transform(vae.fit_transform(holed))
        mean, scale = statistics(holed)
        assert relative(torch.from_numpy(back), mean, scale) < 10


class TestMissing:
    def test_the_log_likelihood_leaves_missing_cells_out(self, holed: np.ndarray) -> None:
        data = vs.open_dataset(holed, standardise=True, missing="mask")
        model = trainer(data, [Member(2)]).model().double()
        x = torch.from_numpy(holed).double()
        z = torch.randn(len(x), 2, generator=torch.Generator().manual_seed(0)).double()
        found = model.decode(z).log_prob(x)
        mean, deviation = model.decode(z).mean, model.decode(z).variance.sqrt()
        cells = torch.distributions.Normal(mean, deviation, validate_args=False).log_prob(x)
        torch.testing.assert_close(found, cells.nansum(1), rtol=1e-10, atol=1e-10)

    def test_the_encoder_sees_the_mean_in_place_of_a_missing_cell(self, holed: np.ndarray) -> None:
        for standardise in (False, True):
            data = vs.open_dataset(holed, standardise=standardise, missing="mask")
            model = trainer(data, [Member(2)]).model()
            filled = np.where(np.isnan(holed), np.nanmean(holed.astype(np.float64), 0), holed).astype(np.float32)
            found, wanted = (model.encode(torch.from_numpy(rows)).mean for rows in (holed, filled))
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)

    def test_gradients_are_finite_and_those_of_a_missing_dimension_are_zero(self, holed: np.ndarray) -> None:
        rows = holed.copy()
        rows[1:, 1] = np.nan
        data = vs.open_dataset(rows, standardise=True, missing="mask")
        model = trainer(data, [Member(2)]).model()
        x = torch.from_numpy(rows[1:])
        noise = {"posterior": torch.zeros(len(x), 2)}
        (-model(x, noise).likelihood.log_prob(x)).sum().backward()
        assert all(bool(value.grad.isfinite().all()) for value in model.parameters() if value.grad is not None)
        assert float(model.decoder.output.weight.grad[1].abs().sum()) == 0
        assert float(model.decoder.output.weight.grad[0].abs().sum()) > 0

    @pytest.mark.parametrize("standardise", [False, True])
    def test_without_missing_cells_the_mask_changes_no_bit(self, unit: np.ndarray, standardise: bool) -> None:
        weights = []
        for missing in (None, "mask"):
            data = vs.open_dataset(unit, standardise=standardise, missing=missing)
            training = trainer(data, [Member(2)])
            training.advance()
            weights.append(training.state.parameters)
        assert torch.equal(*weights)

    def test_reconstructions_fill_in_cells_better_than_their_means(self, folder: Path) -> None:
        draw = np.random.default_rng(0)
        whole = draw.standard_normal((400, 2)) @ draw.standard_normal((2, 8)) * 1e3
        rows = whole.copy()
        rows[draw.random(rows.shape) < 0.2] = np.nan
        holes = np.isnan(rows)
        data = vs.open_dataset(rows, standardise=True, missing="mask")
        filled = vs.fit(data, 2, net=NET, steps=500, learning_rate=2e-2, runs=folder).reconstruct(rows).numpy()
        means = np.broadcast_to(np.nanmean(rows, 0), rows.shape)
        errors = [np.square(guess - whole)[holes].mean() for guess in (filled, means)]
        assert errors[0] < 0.4 * errors[1]

    def test_the_pages_and_files_of_a_run_with_missing_cells_are_written(
        self, holed: np.ndarray, tmp_path: Path
    ) -> None:
        data = vs.open_dataset(holed, standardise=True, missing="mask")
        run = vs.fit(data, 3, net=NET, steps=20, batch=32, runs=tmp_path)
        page = vs.report(run, tmp_path / "report.html").read_text()
        assert '"name": "affine"' in page
        drawn = re.findall(r'<path d="([^"]*)"', page)
        assert drawn
        assert not any("nan" in line for line in drawn)
        pruned = vs.prune(run, keep=[0, 1])
        assert all(math.isfinite(value) for value in pruned.plain().values() if isinstance(value, float))
        # One item with a missing cell is as good as many.
        assert run.encode(holed[0]).mean.isfinite().all()

    def test_the_spread_of_known_cells_is_numpys_whatever_the_chunks(self, holed: np.ndarray) -> None:
        rows = torch.from_numpy(holed)
        rows[:40, 0] = torch.nan  # no value in the first chunks
        chunks = [Spread.of_known(part) for part in rows.split(17)]
        found = chunks[0]
        for chunk in chunks[1:]:
            found = found.merge(chunk)
        np.testing.assert_allclose(found.mean, np.nanmean(rows.double(), 0), rtol=1e-12)
        np.testing.assert_allclose(found.variance, np.nanvar(rows.double(), 0), rtol=1e-9)


class TestRefusals:
    def test_images_and_likelihoods_of_other_items_are_refused(self, tmp_path: Path) -> None:
        images, rows = np.random.default_rng(0).random((2, 9, 6, 6))
        with pytest.raises(DataError, match="standardise is for vectors and signals"):
            vs.open_dataset(images, standardise=True)
        with pytest.raises(DataError, match="is for vectors and signals"):
            vs.open_dataset(images, missing="mask")
        flat = rows.reshape(9, -1)
        for likelihood, options in (("bernoulli", {"standardise": True}), ("poisson", {"missing": "mask"})):
            with pytest.raises(ConfigurationError, match=likelihood):
                vs.fit(vs.open_dataset(flat, **options), 2, likelihood=likelihood, runs=tmp_path)

    def test_a_nan_is_refused_unless_it_is_said_to_be_missing(self, holed: np.ndarray) -> None:
        with pytest.raises(DataError, match="missing='mask'"):
            vs.open_dataset(holed)
        with pytest.raises(ConfigurationError, match="'mean'"):
            vs.open_dataset(holed, missing="mean")
        infinite = holed.copy()
        infinite[7, 2] = np.inf
        with pytest.raises(DataError, match="item 7 contains an infinity"):
            vs.open_dataset(infinite, missing="mask")
        infinite[:, 2] = np.nan
        with pytest.raises(DataError, match="dimension 2 has none"):
            vs.open_dataset(infinite, missing="mask")

    def test_models_that_know_no_missing_values_say_so(self, run: vs.Run, holed: np.ndarray) -> None:
        data = vs.open_dataset(holed, missing="mask")
        for use in (run.encode, run.reconstruct, lambda data: vs.models.Linear.fit(data, 2)):
            with pytest.raises(DataError, match="Fill in the missing values"):
                use(data)

    def test_a_large_scale_is_named_before_training_and_where_it_ends(self, raw: np.ndarray, tmp_path: Path) -> None:
        rows = raw * 1e3
        with (
            pytest.warns(ScaleWarning, match="standardise=True"),
            pytest.raises(NonFiniteError, match=r"standard deviation of up to .* Pass standardise=True"),
        ):
            vs.fit(rows, 2, net=NET, steps=50, learning_rate=1e-2, runs=tmp_path)


def own(latents: int) -> nn.Module:
    return Own(latents)


class Own(nn.Module):
    """A model of another library."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.mean, self.log_variance = nn.Linear(5, latents), nn.Linear(5, latents)
        self.output = nn.Linear(latents, 5)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(x), self.log_variance(x)

    def decode(self, z: Tensor) -> Tensor:
        output: Tensor = self.output(z)
        return output
