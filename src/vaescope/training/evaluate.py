"""The objective's terms on held-out items, with noise that is the same at every evaluation."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from vaescope.numerics import counter
from vaescope.training.batches import Feed
from vaescope.training.engines import as_channels_last
from vaescope.training.step import Task


@torch.no_grad()
def evaluate(
    task: Task, parameters: Float[Tensor, "members size"], data: Feed, step: int
) -> dict[str, Float[Tensor, "members"]]:
    """The mean of every term over the items, in batches of the training size; what does not fill one is left out."""
    items, batch = len(data), min(task.plan.batch, len(data))
    totals: dict[str, Tensor] = {}
    for number in range(items // batch):
        index = torch.arange(number * batch, (number + 1) * batch, device=parameters.device)
        x = as_channels_last(data.batch(index))
        noise = {
            name: counter.normal(task.seeds, f"evaluation/{name}", torch.tensor(0), index, width).to(parameters.dtype)
            for name, width in task.noise.items()
        } | {name: told.expand(len(parameters), *told.shape) for name, told in data.condition(index).items()}
        for name, term in _terms(task, parameters, x, noise, torch.tensor(step, device=parameters.device)).items():
            totals[name] = totals.get(name, 0) + term.to(torch.float64)
    return {name: (total / (items // batch)).cpu() for name, total in totals.items()}


def _terms(
    task: Task, parameters: Tensor, x: Tensor, noise: dict[str, Tensor], step: Tensor
) -> dict[str, Float[Tensor, "members"]]:
    if len(parameters) > 1:
        return vmap(lambda vector, mask, values, drawn: task.terms(vector, mask, values, x, drawn, step))(
            parameters, task.masks, task.strengths, noise
        )
    values = {name: value[0] for name, value in task.strengths.items()}
    drawn = {name: draw[0] for name, draw in noise.items()}
    terms = task.terms(parameters[0], task.masks[0], values, x, drawn, step)
    return {name: term[None] for name, term in terms.items()}
