"""The polarised regime while a LightningModule trains: counts of types on a probe batch, a word on collapse."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vaescope.checks import finite_number, whole_number
from vaescope.errors import CollapseWarning, ConfigurationError, DataError
from vaescope.integrations import extra
from vaescope.integrations.batch import batch_statistics
from vaescope.numerics.polarised import ALPHA, CollapseWatch, collapse_sentence
from vaescope.regime.statistics import EPSILON, threshold
from vaescope.regime.variable_types import VariableTypes, variable_types

with extra("lightning"):
    from lightning import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn

Encode = Callable[[Any, Any], tuple[Tensor, Tensor]]


class PolarisedRegimeCallback(Callback):
    """Looks at the same probe batch every time, and changes nothing of the training it looks at.

    `encode(module, batch)` gives the posterior's (mean, log_variance), items x latents; without it, the module's own
    `encode(batch)` does. It looks every `every` optimiser steps, or after each validation epoch if `every` is None.
    The counts go to the logger, to `callback_metrics` and into the progress bar, as `prefix` + active, mixed and
    passive; `types` holds the last look. When collapse begins, one CollapseWarning says so; that no latent has come
    to life is said only where Lightning knows how many steps training will take.
    """

    def __init__(
        self,
        probe: Any,
        encode: Encode | None = None,
        *,
        every: int | None = 100,
        prefix: str = "",
        alpha: float = ALPHA,
        epsilon: float = EPSILON,
    ) -> None:
        self.probe, self.encode, self.prefix = probe, encode, prefix
        self.every = None if every is None else whole_number("every", every, 1)
        self.alpha, self.epsilon = threshold("alpha", alpha), finite_number("epsilon", epsilon, above=0)
        self.types: VariableTypes | None = None
        self._watch = CollapseWatch()
        self._last_step = 0

    @property
    def state_key(self) -> str:
        """Two callbacks of one trainer keep apart what they saw, by their names in the log."""
        return self._generate_state_key(prefix=self.prefix)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training must remember in order to warn rightly and once."""
        return {"most_active": self._watch.most_active, "begun": self._watch.begun}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a checkpoint was written."""
        self._watch = CollapseWatch(state_dict["most_active"], state_dict["begun"])

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begin anew; Lightning restores what a checkpoint holds after this."""
        if stage != "fit":
            return
        if self.encode is None and not callable(getattr(pl_module, "encode", None)):
            raise ConfigurationError(
                f"{type(pl_module).__name__} must have a method encode(batch) that gives (mean, log_variance), but has "
                "none; write one, or pass encode=function(module, batch)."
            )
        self.types, self._watch = None, CollapseWatch()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count steps from where training begins or goes on."""
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look if a multiple of `every` was passed: a batch may take no step, or one for each of several optimisers."""
        before, self._last_step = self._last_step, trainer.global_step
        if self.every is not None and self._last_step // self.every > before // self.every:
            self._look(trainer, pl_module, on_step=True, on_epoch=False)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look, unless this is the trial run before training, or no training at all."""
        if self.every is None and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._look(trainer, pl_module, on_step=False, on_epoch=True)

    def _look(self, trainer: Trainer, module: LightningModule, on_step: bool, on_epoch: bool) -> None:
        step = trainer.global_step
        try:
            statistics = batch_statistics(*self._codes(trainer, module), self.alpha, self.epsilon)
            self.types = variable_types(statistics, alpha=self.alpha, epsilon=self.epsilon)
        except DataError as error:
            raise DataError(f"the codes of the probe have no types at step {step}: {error}") from error
        values = {f"{self.prefix}{kind}": float(count) for kind, count in self.types.counts.items()}
        # The logger is told here: through the module it would only hear of steps that log_every_n_steps divides.
        for logger in trainer.loggers:
            logger.log_metrics(values, step=step)
        module.log_dict(
            values, prog_bar=True, logger=False, on_step=on_step, on_epoch=on_epoch, batch_size=1, sync_dist=True
        )
        self._warn_of_collapse(trainer, step)

    def _codes(self, trainer: Trainer, module: LightningModule) -> tuple[Tensor, Tensor]:
        batch = trainer.precision_plugin.convert_input(self.probe)
        batch = module.transfer_batch_to_device(batch, module.device, 0)
        with torch.no_grad(), _undisturbed(module), trainer.precision_plugin.forward_context():
            codes: Any = (self.encode or _own_encode)(module, batch)
        if not isinstance(codes, tuple | list) or len(codes) != 2:
            raise DataError(f"encode must give a pair (mean, log_variance) of tensors, got {type(codes).__name__}.")
        return codes[0], codes[1]

    def _warn_of_collapse(self, trainer: Trainer, step: int) -> None:
        if self.types is None:
            return
        planned = trainer.estimated_stepping_batches
        # Lightning says -1 where training has no known end.
        self._watch, what = self._watch.after(self.types.counts, step, planned if planned > 0 else math.inf)
        if what is not None and trainer.is_global_zero:
            warnings.warn(collapse_sentence(what, step), CollapseWarning, stacklevel=2)


def _own_encode(module: Any, batch: Any) -> Any:
    return module.encode(batch)


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """The module as it is when evaluated; then every part in the mode it was in, and random numbers where they were."""
    modes = [(part, part.training) for part in module.modules()]
    devices = {parameter.device for parameter in module.parameters() if parameter.device.type == "cuda"}
    try:
        module.eval()
        with torch.random.fork_rng(devices=list(devices)):
            yield
    finally:
        for part, training in modes:
            part.training = training
