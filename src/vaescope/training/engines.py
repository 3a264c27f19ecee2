"""Two ways to run steps: one member by autograd, or all members stacked in one program."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad_and_value, vmap

from vaescope.numerics.precision import tf32_products
from vaescope.training.batches import Feed
from vaescope.training.cuda_graph import captured
from vaescope.training.memory import keep_freed_memory
from vaescope.training.optimisers import Slots, apply_at_once, apply_in_blocks
from vaescope.training.order import BatchOrder, draw_noise
from vaescope.training.plan import PRECISIONS
from vaescope.training.step import Task

# One row for each step: the loss, every term, the norm of the gradient; one column for each member.
Records = dict[str, Float[Tensor, "steps members"]]
GRADIENT_NORM = "gradient_norm"


@dataclass
class State:
    """Where training stands; engines move it in place."""

    step: int
    parameters: Float[Tensor, "members size"]
    slots: Slots

    def copy(self) -> State:
        """A copy that later steps do not touch."""
        return State(self.step, self.parameters.clone(), {name: slot.clone() for name, slot in self.slots.items()})

    def restore(self, other: State) -> None:
        """Take the other's values, in place."""
        self.step = other.step
        self.parameters.copy_(other.parameters)
        for name, slot in self.slots.items():
            slot.copy_(other.slots[name])


class Own(NamedTuple):
    """What differs between members: inputs of the program, so that other members can take their places."""

    masks: Float[Tensor, "members latents"]
    strengths: dict[str, Float[Tensor, "members"]]
    rates: Float[Tensor, "members 1"]


class Alone:
    """One member, step by step; stops at the first step whose numbers are not finite."""

    def __init__(self, task: Task, data: Feed, order: BatchOrder) -> None:
        self.task, self.data, self.order = task, data, order
        keep_freed_memory()

    def run(self, state: State, stop: int) -> Records:
        """Advance to `stop` steps."""
        task, steps = self.task, range(state.step, stop)
        device = state.parameters.device
        indices = self.order.indices(steps)[:, 0]
        noise = draw_noise(task.noise, task.seeds[:1], steps, self.order.batch, state.parameters.dtype)
        values = {name: value[0] for name, value in task.strengths.items()}
        rows: list[dict[str, float]] = []
        for position, number in enumerate(steps):
            x = as_channels_last(self.data.batch(indices[position]))
            vector = state.parameters[0].detach().requires_grad_()
            step = torch.tensor(number, device=device)
            drawn = {name: draw[position, 0] for name, draw in noise.items()} | self.data.condition(indices[position])
            terms = task.terms(vector, task.masks[0], values, x, drawn, step)
            (gradient,) = torch.autograd.grad(terms["loss"], vector)
            row = {name: float(term.detach()) for name, term in terms.items()}
            row[GRADIENT_NORM] = float(torch.linalg.vector_norm(gradient))
            rows.append(row)
            if not all(math.isfinite(value) for value in row.values()):
                break
            task.update(
                apply_in_blocks, state.parameters, gradient[None], state.slots, step, task.rates, task.strengths
            )
            state.step = number + 1
        return {name: torch.tensor([[row[name]] for row in rows], dtype=torch.float64) for name in rows[0]}


class Stacked:
    """All members at once: their losses are batched over parameters, on an accelerator also compiled.

    There a step is one program in one graph that reads the step's items and noise from buffers on the device;
    the host only launches it.
    """

    def __init__(self, task: Task, data: Feed, order: BatchOrder) -> None:
        self.task, self.data, self.order = task, data, order
        self._own = Own(task.masks, task.strengths, task.rates)
        self._graph: _Graph | None = None

    def run(self, state: State, stop: int) -> Records:
        """Advance to `stop` steps."""
        steps = range(state.step, stop)
        indices = self.order.indices(steps)
        noise = draw_noise(self.task.noise, self.task.seeds, steps, self.order.batch, state.parameters.dtype)
        if state.parameters.is_cuda:
            if self._graph is None:
                self._graph = _Graph(self.step, state, indices, noise, self._own, self.task.plan.log_every)
            records = self._graph.run(steps, indices, noise)
        else:
            rows = [
                self.step(
                    state.parameters,
                    state.slots,
                    indices[position],
                    {name: draw[position] for name, draw in noise.items()},
                    torch.tensor(number),
                    self._own,
                )
                for position, number in enumerate(steps)
            ]
            records = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        state.step = stop
        return {name: record.to("cpu", torch.float64) for name, record in records.items()}

    def step(
        self, parameters: Tensor, slots: Slots, index: Tensor, noise: dict[str, Tensor], step: Tensor, own: Own
    ) -> dict[str, Float[Tensor, "members"]]:
        """One step of every member, in place."""
        task = self.task
        members, batch = index.shape
        x = self.data.batch(index.reshape(-1)).reshape(members, batch, *self.data.data.shape)
        noise = noise | self.data.condition(index)

        def loss(vector: Tensor, mask: Tensor, values: Any, x: Tensor, noise: Any) -> tuple[Tensor, Any]:
            terms = task.terms(vector, mask, values, x, noise, step)
            return terms["loss"], terms

        gradient, (_, terms) = vmap(grad_and_value(loss, has_aux=True))(parameters, own.masks, own.strengths, x, noise)
        task.update(apply_at_once, parameters, gradient, slots, step, own.rates, own.strengths)
        return {**terms, GRADIENT_NORM: torch.linalg.vector_norm(gradient, dim=1)}


class _Graph:
    """A step compiled and captured once, replayed for every later step on the same buffers."""

    def __init__(
        self,
        step: Callable[..., Any],
        state: State,
        indices: Tensor,
        noise: dict[str, Tensor],
        own: Own,
        room: int,
    ) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        def roomy(values: Tensor) -> Tensor:
            return torch.zeros((room, *values.shape[1:]), dtype=values.dtype, device=values.device)

        device = state.parameters.device
        self.indices, self.noise = roomy(indices), {name: roomy(draw) for name, draw in noise.items()}
        self.indices[: len(indices)] = indices
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.number = torch.zeros((), dtype=torch.int64, device=device)
        self.state, self.own = state, own
        before = state.copy()
        example = (
            state.parameters,
            state.slots,
            self.indices[0],
            {name: draw[0] for name, draw in self.noise.items()},
            self.number,
            own,
        )
        # Tracing runs the step once; what it did to the state is undone below.
        program = torch.compile(make_fx(lambda *inputs: step(*inputs))(*example), fullgraph=True, dynamic=False)
        names = list(step(*example))
        self.records = {
            name: torch.zeros(room, len(state.parameters), dtype=state.parameters.dtype, device=device)
            for name in names
        }
        self.graph, _ = captured(lambda: self._once(program), self.position.zero_)
        state.restore(before)

    def _once(self, program: Callable[..., Any]) -> None:
        rows = program(
            self.state.parameters,
            self.state.slots,
            self.indices.index_select(0, self.position)[0],
            {name: draw.index_select(0, self.position)[0] for name, draw in self.noise.items()},
            self.number,
            self.own,
        )
        for name, row in rows.items():
            self.records[name].index_copy_(0, self.position, row[None].to(self.records[name].dtype))
        self.position.add_(1)
        self.number.add_(1)

    def run(self, steps: range, indices: Tensor, noise: dict[str, Tensor]) -> Records:
        """Replay the step once for each of `steps`."""
        self.indices[: len(steps)] = indices
        for name, draw in noise.items():
            self.noise[name][: len(steps)] = draw
        self.position.zero_()
        self.number.fill_(steps.start)
        for _ in steps:
            self.graph.replay()
        return {name: record[: len(steps)].clone() for name, record in self.records.items()}


def as_channels_last(x: Tensor) -> Tensor:
    """Images in the order of dimensions that the CPU's convolutions run fastest in; other items as they are."""
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 and not x.is_cuda else x


def product_precision(precision: str) -> AbstractContextManager[None]:
    """Allow TF32 in float32 products inside the block where the plan's precision does."""
    _, _, allowed = PRECISIONS[precision]
    return tf32_products(allowed)
