"""Two ways to run steps: one member by autograd, or all members stacked in one program."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad_and_value, vmap

from vaescope.training.batches import Batches, BatchOrder, as_channels_last, draw_noise
from vaescope.training.checkpoint import State, first_member
from vaescope.training.ensemble import Ensemble, MemberInputs
from vaescope.training.optimisers import BLOCK_SIZE, Slots

# One row for each step: the loss, every term, the norm of the gradient; one column for each member.
Records = dict[str, Float[Tensor, "steps members"]]
GRADIENT_NORM = "gradient_norm"

WARM_UP_CALLS = 3  # of what a CUDA graph records
# Parameters of mallopt in glibc's malloc.h, and sizes that no activation of a training step exceeds.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
TRIM_BYTES, MMAP_BYTES = 2**31 - 1, 2**30

Result = TypeVar("Result")


class SingleEngine:
    """Trains one member, step by step; stops at the first step whose numbers are not finite."""

    def __init__(self, ensemble: Ensemble, data: Batches, order: BatchOrder) -> None:
        self.ensemble, self.data, self.order = ensemble, data, order
        keep_freed_memory()

    def run(self, state: State, stop: int) -> Records:
        """Advance to step `stop`."""
        ensemble, inputs, steps = self.ensemble, self.ensemble.inputs, range(state.step, stop)
        device = state.parameters.device
        indices = self.order.indices(steps)[:, 0]
        noise = draw_noise(ensemble.noise, inputs.seeds[:1], steps, self.order.batch, state.parameters.dtype)
        values, buffers = first_member(inputs.strengths), first_member(state.buffers)
        rows: list[dict[str, float]] = []
        for position, number in enumerate(steps):
            x = as_channels_last(self.data.batch(indices[position]))
            vector = state.parameters[0].detach().requires_grad_()
            step = torch.tensor(number, device=device)
            drawn = {name: draw[position, 0] for name, draw in noise.items()} | self.data.condition(indices[position])
            loss, terms = ensemble.loss(vector, buffers, inputs.masks[0], values, x, drawn, step)
            (gradient,) = torch.autograd.grad(loss, vector)
            row = {name: float(term.detach()) for name, term in terms.items()}
            row[GRADIENT_NORM] = float(torch.linalg.vector_norm(gradient))
            rows.append(row)
            if not all(math.isfinite(value) for value in row.values()):
                break
            ensemble.update(state.parameters, gradient[None], state.slots, step, inputs, BLOCK_SIZE)
            state.step = number + 1
        return {name: torch.tensor([[row[name]] for row in rows], dtype=torch.float64) for name in rows[0]}


class StackedEngine:
    """Trains all members at once: their losses are batched over parameters, on an accelerator also compiled.

    There a step is one program in one graph, which reads the items and the noise of the step from buffers on the
    device; the host only launches it.
    """

    def __init__(self, ensemble: Ensemble, data: Batches, order: BatchOrder) -> None:
        self.ensemble, self.data, self.order = ensemble, data, order
        self._graph: _Graph | None = None

    def run(self, state: State, stop: int) -> Records:
        """Advance to step `stop`."""
        ensemble, steps = self.ensemble, range(state.step, stop)
        indices = self.order.indices(steps)
        noise = draw_noise(ensemble.noise, ensemble.inputs.seeds, steps, self.order.batch, state.parameters.dtype)
        if state.parameters.is_cuda:
            if self._graph is None:
                self._graph = _Graph(self.step, state, indices, noise, ensemble.inputs, ensemble.plan.log_every)
            records = self._graph.run(steps, indices, noise)
        else:
            rows = [
                self.step(
                    state.parameters,
                    state.slots,
                    state.buffers,
                    indices[position],
                    {name: draw[position] for name, draw in noise.items()},
                    torch.tensor(number),
                    ensemble.inputs,
                )
                for position, number in enumerate(steps)
            ]
            records = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        state.step = stop
        return {name: record.to("cpu", torch.float64) for name, record in records.items()}

    def step(
        self,
        parameters: Float[Tensor, "members size"],
        slots: Slots,
        buffers: dict[str, Tensor],
        index: Tensor,
        noise: dict[str, Tensor],
        step: Tensor,
        inputs: MemberInputs,
    ) -> dict[str, Float[Tensor, "members"]]:
        """One step of every member, in place."""
        ensemble = self.ensemble
        members, batch = index.shape
        x = self.data.batch(index.reshape(-1)).reshape(members, batch, *self.data.data.shape)
        noise = noise | self.data.condition(index)
        gradient, (_, terms) = vmap(grad_and_value(partial(ensemble.loss, step=step), has_aux=True))(
            parameters, buffers, inputs.masks, inputs.strengths, x, noise
        )
        ensemble.update(parameters, gradient, slots, step, inputs)
        return {**terms, GRADIENT_NORM: torch.linalg.vector_norm(gradient, dim=1)}


class _Graph:
    """A step compiled and captured once, replayed for every later step on the same tensors."""

    def __init__(
        self,
        step: Callable[..., dict[str, Tensor]],
        state: State,
        indices: Tensor,
        noise: dict[str, Tensor],
        inputs: MemberInputs,
        room: int,
    ) -> None:
        from torch.fx.experimental.proxy_tensor import make_fx

        def with_room(values: Tensor) -> Tensor:
            return torch.zeros((room, *values.shape[1:]), dtype=values.dtype, device=values.device)

        device = state.parameters.device
        self.indices, self.noise = with_room(indices), {name: with_room(draw) for name, draw in noise.items()}
        self.indices[: len(indices)] = indices
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.number = torch.zeros((), dtype=torch.int64, device=device)
        self.state, self.inputs = state, inputs
        before = state.copy()
        example = (
            state.parameters,
            state.slots,
            state.buffers,
            self.indices[0],
            {name: draw[0] for name, draw in self.noise.items()},
            self.number,
            inputs,
        )
        # Tracing runs the step once; its effect on the state is undone below.
        program = torch.compile(make_fx(lambda *given: step(*given))(*example), fullgraph=True, dynamic=False)
        names = list(step(*example))
        self.records = {
            name: torch.zeros(room, len(state.parameters), dtype=state.parameters.dtype, device=device)
            for name in names
        }
        self.graph, _ = captured(lambda: self._once(program), self.position.zero_)
        state.restore(before)

    def _once(self, program: Callable[..., dict[str, Tensor]]) -> None:
        rows = program(
            self.state.parameters,
            self.state.slots,
            self.state.buffers,
            self.indices.index_select(0, self.position)[0],
            {name: draw.index_select(0, self.position)[0] for name, draw in self.noise.items()},
            self.number,
            self.inputs,
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


def captured(
    work: Callable[[], Result], prepare: Callable[[], object] = lambda: None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Work on a CUDA device recorded as a graph, and its result, which every replay overwrites.

    A replay needs no work on the host. `prepare` is called before each recording.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_CALLS):
            prepare()
            work()
    torch.cuda.current_stream().wait_stream(side)
    prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


@cache
def keep_freed_memory() -> None:
    """Ask glibc to keep the memory that a step frees for the next step.

    By default it returns it to the system, and the next step has thousands of page faults, which take a tenth of its
    time or more. Other C libraries are left unchanged.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None and mallopt(M_MMAP_THRESHOLD, MMAP_BYTES):
        mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
