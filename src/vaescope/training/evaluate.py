"""The terms of the objective on held-out items, with noise that is the same at every evaluation."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from vaescope.numerics import counter
from vaescope.training.batches import Batches, as_channels_last
from vaescope.training.ensemble import Ensemble, evaluation_mode
from vaescope.training.state import State, first_member


@torch.no_grad()
def evaluate(ensemble: Ensemble, state: State, data: Batches) -> dict[str, Float[Tensor, "members"]]:
    """The mean of every term over the items, in batches of the training size; an incomplete last batch is ignored."""
    items, batch = len(data), min(ensemble.plan.batch, len(data))
    device, dtype = state.parameters.device, state.parameters.dtype
    step = torch.tensor(state.step, device=device)
    totals: dict[str, Tensor] = {}
    with evaluation_mode(ensemble.model):
        for number in range(items // batch):
            index = torch.arange(number * batch, (number + 1) * batch, device=device)
            x = as_channels_last(data.batch(index))
            noise = {
                name: counter.normal(ensemble.inputs.seeds, f"evaluation/{name}", torch.tensor(0), index, width).to(
                    dtype
                )
                for name, width in ensemble.noise.items()
            }
            for name, condition in data.condition(index).items():
                noise[name] = condition.expand(len(state.parameters), *condition.shape)
            for name, term in _terms(ensemble, state, x, noise, step).items():
                totals[name] = totals.get(name, 0) + term.to(torch.float64)
    return {name: (total / (items // batch)).cpu() for name, total in totals.items()}


def _terms(
    ensemble: Ensemble, state: State, x: Tensor, noise: dict[str, Tensor], step: Tensor
) -> dict[str, Float[Tensor, "members"]]:
    inputs = ensemble.inputs
    if len(state.parameters) > 1:
        terms: dict[str, Tensor] = vmap(
            lambda vector, buffers, mask, values, drawn: ensemble.terms(vector, buffers, mask, values, x, drawn, step)
        )(state.parameters, state.buffers, inputs.masks, inputs.strengths, noise)
        return terms
    buffers, values, drawn = (first_member(tensors) for tensors in (state.buffers, inputs.strengths, noise))
    alone = ensemble.terms(state.parameters[0], buffers, inputs.masks[0], values, x, drawn, step)
    return {name: term[None] for name, term in alone.items()}
