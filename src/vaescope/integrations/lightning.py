"""A Lightning callback that monitors the polarised regime: counts of variable types, and a warning on collapse."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vaescope.checks import finite_number, whole_number
from vaescope.errors import CollapseWarning, ConfigurationError, DataError
from vaescope.integrations import extra
from vaescope.integrations.batch import batch_statistics
from vaescope.models.module import evaluation_mode
from vaescope.numerics.polarised import ALPHA, CollapseWatch, collapse_sentence
from vaescope.regime.statistics import EPSILON, checked_tolerance
from vaescope.regime.variable_types import VariableTypes, variable_types

with extra("lightning"):
    from lightning import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn

Encode = Callable[[Any, Any], tuple[Tensor, Tensor]]


class PolarisedRegimeCallback(Callback):
    """Counts active, mixed and passive latents on a fixed probe batch while a LightningModule trains.

    The counts are logged, and shown in `callback_metrics` and the progress bar, as `prefix` + active, mixed and
    passive. `types` is the result of the last probe. The callback does not change the training: modes and random
    numbers are restored after each probe. It warns once (`CollapseWarning`) when collapse begins, and, if Lightning
    knows the number of steps, when no latent becomes active.

    Args:
        probe: The batch to encode, in the form that the module's data loader returns.
        encode: `encode(module, batch)` returns (mean, log_variance) of the posterior, each items x latents. Unlike
            `vs.diagnose`, which takes variances, it must return the **logarithm** of the variance, as training code
            computes it. Default: the module's method `encode(batch)`, which must return the same.
        every: The number of optimiser steps between probes; None to probe after each validation epoch.
        prefix: Put before the names of the logged counts.
        alpha, epsilon: Thresholds of `variable_types`.
    """

    def __init__(
        self,
        probe: object,
        encode: Encode | None = None,
        *,
        every: int | None = 100,
        prefix: str = "",
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
    ) -> None:
        self.probe, self.encode, self.prefix = probe, encode, prefix
        self.every = None if every is None else whole_number("every", every, 1)
        self.alpha, self.epsilon = checked_tolerance("alpha", alpha), finite_number("epsilon", epsilon, above=0)
        self.types: VariableTypes | None = None
        self._watch = CollapseWatch()
        self._last_step = 0

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
                f"{type(pl_module).__name__} must have a method encode(batch) that returns (mean, log_variance), but "
                "has none. Add one, or pass encode=function(module, batch)."
            )
        self.types, self._watch = None, CollapseWatch()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count steps from the start, or from where training resumes."""
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Probe if a multiple of `every` was passed; a batch may make no optimiser step, or several."""
        before, self._last_step = self._last_step, trainer.global_step
        if self.every is not None and self._last_step // self.every > before // self.every:
            self._probe(trainer, pl_module, on_step=True, on_epoch=False)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Probe, unless this is the sanity check before training, or validation without training."""
        if self.every is None and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._probe(trainer, pl_module, on_step=False, on_epoch=True)

    def _probe(self, trainer: Trainer, module: LightningModule, on_step: bool, on_epoch: bool) -> None:
        step = trainer.global_step
        try:
            statistics = batch_statistics(*self._codes(trainer, module), self.alpha, self.epsilon)
            self.types = variable_types(statistics, alpha=self.alpha, epsilon=self.epsilon)
        except DataError as error:
            raise DataError(f"Variable types of the probe batch at step {step} cannot be computed: {error}") from error
        values = {f"{self.prefix}{kind}": float(count) for kind, count in self.types.counts.items()}
        # Logged directly, because the module would log only the steps that are multiples of log_every_n_steps.
        for logger in trainer.loggers:
            logger.log_metrics(values, step=step)
        module.log_dict(
            values, prog_bar=True, logger=False, on_step=on_step, on_epoch=on_epoch, batch_size=1, sync_dist=True
        )
        self._warn_of_collapse(trainer, step)

    def _codes(self, trainer: Trainer, module: LightningModule) -> tuple[Tensor, Tensor]:
        batch = trainer.precision_plugin.convert_input(self.probe)
        batch = module.transfer_batch_to_device(batch, module.device, 0)
        devices = {parameter.device for parameter in module.parameters() if parameter.device.type == "cuda"}
        with (
            torch.no_grad(),
            evaluation_mode(module),
            torch.random.fork_rng(devices=list(devices)),
            trainer.precision_plugin.forward_context(),
        ):
            codes: object = (self.encode or _call_encode)(module, batch)
        if not isinstance(codes, tuple | list) or len(codes) != 2:
            raise DataError(f"encode must return a pair (mean, log_variance) of tensors, got {type(codes).__name__}.")
        return codes[0], codes[1]

    def _warn_of_collapse(self, trainer: Trainer, step: int) -> None:
        if self.types is None:
            return
        planned = trainer.estimated_stepping_batches
        # Lightning says -1 if the number of steps is unknown.
        self._watch, event = self._watch.after(self.types.counts, step, planned if planned > 0 else math.inf)
        if event is not None and trainer.is_global_zero:
            warnings.warn(collapse_sentence(event, step), CollapseWarning, stacklevel=2)


def _call_encode(module: Any, batch: object) -> tuple[Tensor, Tensor]:
    codes: tuple[Tensor, Tensor] = module.encode(batch)
    return codes
