"""Statistics of items keep the precision of the parameters, whatever a model computes in.

A step moves a running statistic of a normalisation by a tenth of a difference, and the mean of a dimension may be large
compared with its deviation; in bfloat16 both would be lost in rounding.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from vaescope.likelihoods import FittedToItems


def compute_exactly(model: nn.Module, computed: torch.dtype) -> frozenset[str]:
    """Let normalisations compute in the type of their statistics, inside a model that computes in `computed`.

    Returns the names of their parameters and buffers, and of buffers that are fitted to items: all keep their type.
    """
    exact = [
        (prefix, module)
        for prefix, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, _NormBase) and module.track_running_stats
    ]
    for module in dict.fromkeys(module for _, module in exact):
        module.register_forward_pre_hook(_as_statistics)
        module.register_forward_hook(partial(_as_others, computed))
    own = [(prefix, name) for prefix, module in exact for name in module.state_dict()]
    fitted = [
        (prefix, name)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, _ in module.named_buffers(recurse=False)
        if isinstance(module, FittedToItems)
    ]
    return frozenset(f"{prefix}.{name}" if prefix else name for prefix, name in own + fitted)


def _as_statistics(module: _NormBase, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The inputs in the type of the statistics."""
    statistics = module.running_mean
    return inputs if statistics is None else tuple(one.to(statistics.dtype) for one in inputs)


def _as_others(computed: torch.dtype, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """The output in the type of the model's other numbers."""
    return output.to(computed)
