"""A trial step and evaluation on a few items, which shows what the model of an ensemble needs in training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch.func import grad_and_value, vmap
from torch.utils import _pytree as pytree

from vaescope.models.module import evaluation_mode
from vaescope.training.batches import Batches
from vaescope.training.checkpoint import State
from vaescope.training.ensemble import Ensemble

ITEMS = 4
OWN_RANDOMNESS = "the model draws random numbers by itself"


def tried(ensemble: Ensemble, data: Batches, state: State, stacked: bool) -> Ensemble:
    """The ensemble with `draws` and `one_by_one` set according to a step on a few items.

    `state` is not changed. Users' modules may draw random numbers, or run operations that torch cannot batch over
    members.
    """
    device, inputs = state.parameters.device, ensemble.inputs
    index = torch.arange(min(ITEMS, len(data)), device=device)
    members, step = len(inputs.masks), torch.tensor(0, device=device)
    noise = {
        name: torch.zeros(members, len(index), width, dtype=state.parameters.dtype, device=device)
        for name, width in ensemble.noise.items()
    }
    noise |= {name: values.expand(members, *values.shape) for name, values in data.condition(index).items()}
    items = ensemble.shared_items(data, index)
    x = items.expand(members, *items.shape)
    given = (state.parameters, state.buffers, inputs.masks, inputs.strengths, x, noise)
    loss = partial(ensemble.loss, step=step)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        before = _generators(device)
        loss(*pytree.tree_map(lambda tensor: tensor[0], given))
        draws = any(not torch.equal(one, other) for one, other in zip(before, _generators(device), strict=True))
        if draws:
            return replace(ensemble, draws=True, one_by_one=OWN_RANDOMNESS)
        if stacked:
            try:
                vmap(grad_and_value(loss, has_aux=True))(*given)
                # Evaluation shares items, and without gradients torch computes layers such as GRU by other operations.
                with torch.no_grad(), evaluation_mode(ensemble.model):
                    vmap(loss, in_dims=(0, 0, 0, 0, None, 0))(*given[:4], items, noise)
            except RuntimeError as error:
                return replace(ensemble, one_by_one=f"torch cannot batch it ({str(error).partition(chr(10))[0]})")
    return ensemble


def _generators(device: torch.device) -> list[torch.Tensor]:
    """The states of torch's generators that a model on the device may draw from."""
    own = {"cuda": lambda: [torch.cuda.get_rng_state(device)], "mps": lambda: [torch.mps.get_rng_state()]}
    return [torch.random.get_rng_state(), *own.get(device.type, list)()]
