"""A Lightning callback that monitors the polarised regime: counts of variable types, and a warning on collapse."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.encoding.untouched import untouched
from vaescope.errors import CollapseWarning, ConfigurationError, DataError
from vaescope.integrations import extra
from vaescope.integrations.batch import batch_statistics
from vaescope.models.moments import VARIANCE, Spread, checked_spread
from vaescope.models.outputs import one_reader
from vaescope.models.readers import Call, Reader
from vaescope.numerics.polarised import ALPHA, CollapseWatch, collapse_sentence
from vaescope.regime.statistics import EPSILON, LatentStatistics, checked_tolerance
from vaescope.regime.variable_types import VariableTypes, variable_types

with extra("lightning"):
    from lightning import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn

Encode: TypeAlias = Callable[[Any, Any], object]


class PolarisedRegimeCallback(Callback):
    """Counts active, mixed and passive latents on a fixed probe batch while a LightningModule trains.

    The counts are logged, and shown in `callback_metrics` and the progress bar, as `prefix` + active, mixed and
    passive. `types` is the result of the last probe. The callback does not change the training: modes and random
    numbers are restored after each probe. It warns once (`CollapseWarning`) when collapse begins, and, if Lightning
    knows the number of steps, when no latent becomes active.

    Args:
        probe: The batch to encode, in the form that the module's data loader returns.
        encode: `encode(module, batch)` returns the posterior, in any form that `vaescope.wrap` reads. A pair is (mean,
            variance), as everywhere. Default: the module's method `encode(batch)`, whose output is recognised.
        spread: The meaning of the second of a pair: 'variance', 'log_variance', 'std' or 'log_std'. Default: of the
            method, a log-variance if it has negative numbers.
        every: The number of optimiser steps between probes; None to probe after each validation epoch. The final
            weights are probed in both cases.
        prefix: Put before the names of the logged counts.
        alpha, epsilon: Thresholds of `variable_types`.
    """

    def __init__(
        self,
        probe: object,
        encode: Encode | None = None,
        *,
        spread: Spread | None = None,
        every: int | None = 100,
        prefix: str = "",
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
    ) -> None:
        self.probe, self.encode, self.prefix = probe, encode, prefix
        self.spread = checked_spread(spread)
        self.every = None if every is None else whole_number("every", every, 1)
        self.alpha, self.epsilon = checked_tolerance("alpha", alpha), finite_number("epsilon", epsilon, above=0)
        self.types: VariableTypes | None = None
        self._watch = CollapseWatch()
        self._last_step = 0
        self._last_probe: int | None = None
        self._reader: Reader | None = None

    @property
    def state_key(self) -> str:
        """Distinguishes two callbacks of one trainer by their prefix."""
        return self._generate_state_key(prefix=self.prefix)

    def state_dict(self) -> dict[str, object]:
        """The state that a resumed training needs to warn at the right time, and once."""
        return {"most_active": self._watch.most_active, "begun": self._watch.begun}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self._watch = CollapseWatch(state_dict["most_active"], state_dict["begun"])

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Reset the state; Lightning restores that of a checkpoint afterwards."""
        if stage != "fit":
            return
        if self.encode is None and not callable(getattr(pl_module, "encode", None)):
            raise ConfigurationError(
                f"{type(pl_module).__name__} must have a method encode(batch) that returns the posterior, but "
                "has none. Add one, or pass encode=function(module, batch)."
            )
        self.types, self._watch, self._last_probe = None, CollapseWatch(), None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find out what `encode` returns, and count steps from the start or the resumed step."""
        spread = VARIANCE if self.spread is None and self.encode is not None else self.spread
        encode = partial(self._encode, trainer, pl_module)
        words = f"What encode of {type(pl_module).__name__} returns"
        advice = "Pass encode=, a function (module, batch) that returns {'mean': ..., 'log_variance': ...}."
        self._reader = one_reader(encode(), Call(spread=spread, repeat=encode), words, advice)
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Probe if a multiple of `every` was passed; a batch may take no optimiser step, or several."""
        before, self._last_step = self._last_step, trainer.global_step
        if self.every is not None and self._last_step // self.every > before // self.every:
            self._probe(trainer, pl_module)
            self._show(pl_module, on_step=True)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Probe, unless this is the sanity check before training, or validation without training."""
        if self.every is None and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._probe(trainer, pl_module)
            self._show(pl_module, on_step=False)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Probe the final weights, unless the last probe used them."""
        if self._last_probe != trainer.global_step:
            self._probe(trainer, pl_module)
            # A module cannot log here, so the counts are written to its metrics directly.
            trainer.callback_metrics.update({name: torch.tensor(count) for name, count in self._counts().items()})

    def _counts(self) -> dict[str, float]:
        assert self.types is not None
        return {f"{self.prefix}{kind}": float(count) for kind, count in self.types.counts.items()}

    def _show(self, module: LightningModule, on_step: bool) -> None:
        """Show the counts in `callback_metrics` and the progress bar."""
        module.log_dict(
            self._counts(),
            prog_bar=True,
            logger=False,
            on_step=on_step,
            on_epoch=not on_step,
            batch_size=1,
            sync_dist=True,
        )

    def _probe(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        try:
            statistics = self._statistics(trainer, module)
            self.types = variable_types(statistics, alpha=self.alpha, epsilon=self.epsilon)
        except DataError as error:
            raise DataError(f"Variable types of the probe batch at step {step} cannot be computed: {error}") from error
        self._last_probe = step
        # Logged directly, because the module would log only the steps that are multiples of log_every_n_steps.
        for logger in trainer.loggers:
            logger.log_metrics(self._counts(), step=step)
        self._warn_of_collapse(trainer, step)

    def _statistics(self, trainer: Trainer, module: LightningModule) -> LatentStatistics:
        assert self._reader is not None
        output, prior = self._encode(trainer, module), self._reader.prior
        own = None if prior is None else prior(output)
        return batch_statistics(self._reader.posterior(output), own, alpha=self.alpha, epsilon=self.epsilon)

    def _encode(self, trainer: Trainer, module: LightningModule) -> object:
        batch = trainer.precision_plugin.convert_input(self.probe)
        batch = module.transfer_batch_to_device(batch, module.device, 0)
        with torch.no_grad(), untouched(module), trainer.precision_plugin.forward_context():
            return (self.encode or _call_encode)(module, batch)

    def _warn_of_collapse(self, trainer: Trainer, step: int) -> None:
        if self.types is None:
            return
        planned = trainer.estimated_stepping_batches
        # Lightning returns -1 if the number of steps is unknown.
        self._watch, event = self._watch.after(self.types.counts, step, planned if planned > 0 else math.inf)
        if event is not None and trainer.is_global_zero:
            warnings.warn(collapse_sentence(event, step), CollapseWarning, stacklevel=2)


def _call_encode(module: Any, batch: object) -> object:
    found: object = module.encode(batch)
    return found
