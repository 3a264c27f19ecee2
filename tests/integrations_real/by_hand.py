"""Codes and types computed by hand, the bit-exact state of a module, and calls of every function that takes a model."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

import vaescope as vs

Untouched: TypeAlias = Callable[[nn.Module], AbstractContextManager[None]]
BATCH = 256  # the default of `vs.wrap`: rounding depends on it


def in_batches(encode: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of all items, without gradients."""
    with torch.no_grad():
        parts = [encode(batch) for batch in x.split(BATCH)]
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return mean, variance


def expected(mean: Tensor, variance: Tensor) -> vs.regime.VariableTypes:
    """The types of codes computed by hand."""
    return vs.variable_types((mean.detach(), variance.detach()))


def assert_same_types(found: vs.regime.VariableTypes, wanted: vs.regime.VariableTypes) -> None:
    """The same type of every latent under every rule, from the same statistics."""
    assert found.by_rule == wanted.by_rule
    assert found.statistics.count == wanted.statistics.count
    for part in ("mean", "variance"):
        for moment in ("mean", "variance"):
            one, other = (getattr(getattr(types.statistics, part), moment) for types in (found, wanted))
            assert torch.equal(one, other), f"{moment} of {part}"
    assert torch.equal(found.statistics.rate, wanted.statistics.rate)


def state(module: nn.Module) -> dict[str, object]:
    """Everything about a module that a call could change, and the state of the random number generators."""
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    tensors = {**parameters, **buffers, **module.state_dict()}
    return {
        "values": {name: (value.dtype, value.device, value.detach().clone()) for name, value in tensors.items()},
        "same objects": {name: id(value) for name, value in {**parameters, **buffers}.items()},
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in parameters.items()},
        "requires gradient": {name: p.requires_grad for name, p in parameters.items()},
        "modes": {name: part.training for name, part in module.named_modules()},
        "hooks": {
            name: (len(part._forward_hooks), len(part._forward_pre_hooks)) for name, part in module.named_modules()
        },
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "python": random.getstate(),
        "gradients on": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }


def assert_equal(found: object, wanted: object, name: str) -> None:
    """Equality to the bit, also of tensors within tables and tuples."""
    if isinstance(wanted, Tensor):
        assert isinstance(found, Tensor), name
        assert torch.equal(found, wanted), name
    elif isinstance(wanted, np.ndarray):
        assert np.array_equal(found, wanted), name
    elif isinstance(wanted, dict):
        assert isinstance(found, dict), name
        assert found.keys() == wanted.keys(), name
        for key, value in wanted.items():
            assert_equal(found[key], value, f"{name}: {key}")
    elif isinstance(wanted, tuple):
        assert isinstance(found, tuple), name
        assert len(found) == len(wanted), name
        for part, value in zip(found, wanted, strict=True):
            assert_equal(part, value, name)
    else:
        assert found == wanted, name


def half_trained(module: nn.Module) -> nn.Module:
    """Training mode, one frozen parameter and one gradient: a call during training must not change them."""
    module.train()
    first, second = list(module.parameters())[:2]
    first.requires_grad_(False)
    second.grad = torch.ones_like(second)
    return module


def use_everything(model: object, x: object, folder: Path) -> dict[str, object]:
    """Call every function that takes a model; the results by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "diagnose": vs.diagnose(model, x),
            "encode": vs.encode(model, x),
            "activations": vs.activations(model, x, items=20),
            "compare": vs.compare([model, model], x, layers=True),
            "report": vs.report(model, folder / "report.html", x),
            "prune": vs.prune(model, x, keep=[0, 2]),
        }
