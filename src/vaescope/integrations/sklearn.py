"""A VAE as a transformer of scikit-learn: items to codes and back, in pipelines and searches."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vaescope.checks import is_whole, whole_number
from vaescope.codes.arrays import as_tensor
from vaescope.data import Dataset, open_dataset
from vaescope.data.dataset import Missing
from vaescope.data.items import open_items
from vaescope.encoding import decode, encode, lower_bound
from vaescope.errors import ConfigurationError, DataError, quoted, unknown_name
from vaescope.likelihoods import Likelihood
from vaescope.models import TrainableModel
from vaescope.nets import Net
from vaescope.objectives import OBJECTIVES, Beta, Objective
from vaescope.priors import Prior
from vaescope.registry import PartSpec
from vaescope.runs import Configuration, FitOptions, Run, TrainedModel, choose_device, fit_in_memory, fit_many
from vaescope.sizing import Fondue, fondue
from vaescope.training import Member

FONDUE = "fondue"
OUTPUTS = ("mean", "sample")
FLOATS = (np.float64, np.float32)


class VAETransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # no types
    """A variational autoencoder: `transform` gives the codes of items, `inverse_transform` the items of codes.

    It learns from tables, items x features. Scale the features first, for instance by a `StandardScaler` in the same
    pipeline. Training and codes are those of `vs.fit` and `vs.encode`. No item is held out: scikit-learn splits data.

    Args:
        latents: Number of latents, at most the number of features; 'fondue' searches for it with `vs.fondue` before
            training.
        objective: Default: `Beta()`, the ELBO. As every part, it is a name, a table {"name": ..., option: value}, or an
            instance.
        learning_rate: Learning rate of the optimiser.
        steps, epochs: Length of training; give one of them. Default: 5000 steps.
        batch: Items in a batch.
        net: Default: 'conv' for images of at least 16 x 16 pixels, else 'mlp'.
        likelihood: Default: 'bernoulli' for images, else 'gaussian' with a learned variance.
        prior: Default: 'standard'.
        precision: 'float32', 'float64', 'tf32' or 'bfloat16'.
        device: Default: 'cuda' if there is a GPU, else 'cpu'.
        shape: The shape of an image whose pixels are the features, (channels, height, width) or (height, width).
            Pixels lie in [0, 1]. Default: items are vectors.
        standardise: Whether the model sees each feature with mean 0 and variance 1; `inverse_transform` gives items in
            the units of X.
        missing: 'mask' if X may have NaNs: the encoder sees the mean of the feature, and the likelihood leaves them
            out. `inverse_transform` of the codes fills them in. Default: a NaN is an error.
        output: What `transform` gives: the 'mean' of each code, or a 'sample' that depends on `random_state` and on the
            position of the item.
        fondue_options: Keywords of `vs.fondue`, such as {"seeds": 3}, for latents='fondue'.
        runs: Folder that keeps the trained model as a run, which is reused when the same data and parameters are fitted
            again. Default: nothing is written.
        random_state: Seed of the initial weights, the batches and the noise.
        progress: Whether to show progress: a bar on a terminal, lines in a log.

    Attributes:
        n_latents_: Number of latents.
        model_: The trained model; `vs.diagnose(vae.model_, X)` says which of its latents are in use.
        history_: One row for each logged step: `step`, `split`, `loss` and every term.
        fondue_: The result of the search for the number of latents; None if `latents` is a number.
        run_: The run in `runs`; None if nothing is written.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if they have names.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from vaescope import VAETransformer
        >>> VAETransformer(latents=2, steps=20, random_state=0).fit_transform(load_iris().data).shape
        (150, 2)
    """

    fondue_: Fondue | None
    run_: Run | None
    n_latents_: int
    model_: TrainableModel
    history_: list[dict[str, Any]]
    _configuration: Configuration

    def __init__(
        self,
        latents: int | str = 10,
        *,
        objective: PartSpec[Objective] | None = None,
        learning_rate: float = 1e-4,
        steps: int | None = None,
        epochs: float | None = None,
        batch: int = 64,
        net: PartSpec[Net] | None = None,
        likelihood: PartSpec[Likelihood] | None = None,
        prior: PartSpec[Prior] | None = None,
        precision: str = "float32",
        device: str | torch.device | None = None,
        shape: Sequence[int] | None = None,
        standardise: bool = False,
        missing: Missing | None = None,
        output: str = "mean",
        fondue_options: Mapping[str, Any] | None = None,
        runs: str | Path | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool | None = False,
    ) -> None:
        self.latents = latents
        self.objective = objective
        self.learning_rate = learning_rate
        self.steps = steps
        self.epochs = epochs
        self.batch = batch
        self.net = net
        self.likelihood = likelihood
        self.prior = prior
        self.precision = precision
        self.device = device
        self.shape = shape
        self.standardise = standardise
        self.missing = missing
        self.output = output
        self.fondue_options = fondue_options
        self.runs = runs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: object, y: object = None) -> Self:
        """Train on the rows of X; y is ignored."""
        self._check_output()
        fixed = None if self.latents == FONDUE else whole_number("latents, unless 'fondue',", self.latents, 1)
        smallest = {"ensure_min_samples": 2, "ensure_min_features": fixed or 1}
        table = validate_data(self, X, dtype=FLOATS, ensure_all_finite=self._finite, **smallest)
        data, options = self._training_items(table), self._options()
        objective = Beta() if self.objective is None else OBJECTIVES.resolve(self.objective)
        member = Member(fixed or 1, objective, self.learning_rate, self._drawn_seed())
        self.fondue_ = None
        if fixed is None:
            self.fondue_ = self._search(data, objective)
            member = replace(member, latents=self.fondue_.latents)
        if self.runs is None:
            self.run_, trained = None, fit_in_memory(data, member, options)
        else:
            (self.run_,) = fit_many(data, [member], options)
            trained = TrainedModel(self.run_.configuration, self.run_.model, self.run_.history)
        self.n_latents_, self.model_, self.history_ = member.latents, trained.model, trained.history
        self._configuration = trained.configuration
        return self

    def transform(self, X: object) -> Float[np.ndarray, "items latents"]:
        """The codes of the rows of X, in their float type: posterior means, or samples if `output` says so."""
        table = self._validated(X)
        self._check_output()
        codes = encode(self._model_in(table), self._items(table), seed=self._seed, progress=False)
        return (codes.mean if self.output == "mean" else codes.sample).numpy()

    def inverse_transform(self, X: object) -> Float[np.ndarray, "items features"]:
        """The items of codes: the means of p(x|z), in the units of the data that were fitted."""
        check_is_fitted(self)
        codes = check_array(X, dtype=FLOATS)
        if codes.shape[1] != self.n_latents_:
            raise DataError(f"codes must have {self.n_latents_} latents, got {codes.shape[1]} columns.")
        return decode(self._model_in(codes), as_tensor(codes, "codes")).flatten(1).numpy()

    def score(self, X: object, y: object = None) -> float:
        """The mean evidence lower bound of the rows of X, in nats per item; higher is better, y is ignored.

        It is comparable between models of the same data with the same kind of likelihood, whatever their objectives.
        """
        table = self._validated(X)
        return float(lower_bound(self._model_in(table), self._items(table), seed=self._seed).mean())

    @property
    def _n_features_out(self) -> int:
        """The number of names that `get_feature_names_out` returns."""
        return self.n_latents_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator is fitted."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        """Tags for scikit-learn: float types are preserved."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        tags.transformer_tags.preserves_dtype = [kind.__name__ for kind in FLOATS]
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """The state with the weights as arrays, so that no torch module is stored in a pickle."""
        state = dict(super().__getstate__())
        if "model_" in state:
            state["model_"] = {name: value.cpu().numpy() for name, value in self.model_.state_dict().items()}
            # A run caches what it has read.
            state["run_"] = None if self.run_ is None else Run(self.run_.path)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Rebuild the model from the weights of `__getstate__`."""
        if "model_" in state:
            weights = {name: as_tensor(value, name) for name, value in state["model_"].items()}
            state = {**state, "model_": state["_configuration"].build(weights)}
        super().__setstate__(state)

    @property
    def _seed(self) -> int:
        return self._configuration.member.seed

    @property
    def _finite(self) -> bool | str:
        """Whether scikit-learn is to refuse NaN and infinity, or infinity only."""
        return True if self.missing is None else "allow-nan"

    def _check_output(self) -> None:
        if self.output not in OUTPUTS:
            raise unknown_name("output", self.output, OUTPUTS)

    def _validated(self, X: object) -> np.ndarray:
        check_is_fitted(self)
        table: np.ndarray = validate_data(self, X, dtype=FLOATS, ensure_all_finite=self._finite, reset=False)
        return table

    def _items(self, table: np.ndarray) -> Dataset:
        """Rows for the trained model; a single row is allowed."""
        shape = tuple(self._configuration.data["shape"])
        return open_items(self._arranged(table, shape), shape, "X", missing=self.missing)

    def _training_items(self, table: np.ndarray) -> Dataset:
        """Rows to train on, as vectors or as images."""
        if self.shape is None:
            return self._opened(table)
        shape = tuple(self.shape)
        known = all(is_whole(size, 1) for size in shape) and len(shape) in (2, 3)
        if not known or shape[:-2] not in ((), (1,), (3,)):
            raise ConfigurationError(
                "shape must be (channels, height, width) with 1 or 3 channels, or (height, width), got "
                f"{quoted(self.shape)}."
            )
        if math.prod(shape) != table.shape[1]:
            raise DataError(f"shape {shape} needs {math.prod(shape)} pixels, X has {table.shape[1]} features.")
        return self._opened(self._arranged(table, shape))

    def _opened(self, rows: np.ndarray) -> Dataset:
        return open_dataset(rows, name="X", standardise=self.standardise, missing=self.missing)

    def _arranged(self, table: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The rows in the shape of the items; pixels are checked."""
        lowest, highest = float(table.min()), float(table.max())
        if len(shape) > 1 and (lowest < 0 or highest > 1):
            raise DataError(
                f"pixels must lie in [0, 1], got {lowest:g}..{highest:g}. Rescale them, for instance by "
                "MinMaxScaler(clip=True) in the same pipeline, or leave shape out."
            )
        return table.reshape(len(table), *shape)

    def _options(self) -> FitOptions:
        return FitOptions(
            net=self.net,
            likelihood=self.likelihood,
            prior=self.prior,
            precision=self.precision,
            batch=self.batch,
            steps=self.steps,
            epochs=self.epochs,
            held_out=0,
            device=self.device,
            runs=FitOptions.runs if self.runs is None else self.runs,
            progress=self.progress,
        )

    def _search(self, data: Dataset, objective: Objective) -> Fondue:
        """The number of latents of the same model, trained with the same objective."""
        found = fondue(
            data,
            objective=objective,
            net=self.net,
            likelihood=self.likelihood,
            prior=self.prior,
            precision=self.precision,
            held_out=0,
            device=self.device,
            runs=self.runs,
            progress=self.progress,
            **(self.fondue_options or {}),
        )
        if found.latents == 0:
            raise DataError(found.summary())
        return found

    def _drawn_seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _model_in(self, table: np.ndarray) -> TrainableModel:
        """The model on its device, in the precision of a table: in float64 no code depends on the other items."""
        model: TrainableModel = self.model_.to(choose_device(self.device))
        wanted = torch.float32 if table.dtype == np.float32 else torch.float64
        return model if next(model.parameters()).dtype == wanted else copy.deepcopy(model).to(wanted)
