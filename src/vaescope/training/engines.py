"""Two ways to run steps: the members one after another by autograd, or all stacked in one program."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad_and_value, vmap

from vaescope.nets.convolution import library_convolutions
from vaescope.numerics import counter
from vaescope.training.batches import Batches, BatchOrder, as_channels_last, draw_noise
from vaescope.training.checkpoint import State
from vaescope.training.ensemble import Ensemble, MemberInputs
from vaescope.training.optimisers import BLOCK_SIZE, Slots, apply, apply_fused
from vaescope.training.traced_steps import TracedStep, traced

# One row for each step: the loss, every term, the norm of the gradient; one column for each member.
Records = dict[str, Float[Tensor, "steps members"]]
GRADIENT_NORM = "gradient_norm"

WARM_UP_CALLS = 3  # of the function, before it is recorded as a CUDA graph
# Parameters of mallopt in glibc's malloc.h, and sizes that no activation of a training step exceeds.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
TRIM_BYTES, MMAP_BYTES = 2**31 - 1, 2**30

Result = TypeVar("Result")


class _MemberTensors(NamedTuple):
    """The inputs of one member's step, as views of the stacked tensors; the step changes the state."""

    state: State
    inputs: MemberInputs
    seed: int


class SingleEngine:
    """Trains members one after another in every step; stops at the first step whose numbers are not finite."""

    def __init__(self, ensemble: Ensemble, data: Batches, order: BatchOrder) -> None:
        self.ensemble, self.data, self.order = ensemble, data, order
        keep_freed_memory()

    def run(self, state: State, stop: int) -> Records:
        """Advance to step `stop`."""
        inputs, steps = self.ensemble.inputs, range(state.step, stop)
        indices = self.order.indices(steps)
        like = state.parameters
        noise = draw_noise(self.ensemble.noise, inputs.seeds, steps, self.order.batch, like.dtype, like.device)
        members = [
            _MemberTensors(state.of_member(position), inputs.of_member(position), seed)
            for position, seed in enumerate(inputs.seeds.tolist())
        ]
        rows: list[list[dict[str, float]]] = []
        for position, (number, given) in enumerate(zip(steps, self.data.steps(indices), strict=True)):
            rows.append(
                [
                    self._step(
                        member,
                        number,
                        indices[position, place],
                        {name: items.chunk(len(members))[place] for name, items in given.items()},
                        {name: draw[position, place] for name, draw in noise.items()},
                    )
                    for place, member in enumerate(members)
                ]
            )
            if not all(math.isfinite(value) for row in rows[-1] for value in row.values()):
                break
            state.step = number + 1
        return {
            name: torch.tensor([[member[name] for member in row] for row in rows], dtype=torch.float64)
            for name in rows[0][0]
        }

    def _step(
        self,
        member: _MemberTensors,
        number: int,
        index: Tensor,
        given: Mapping[str, Tensor],
        noise: Mapping[str, Tensor],
    ) -> dict[str, float]:
        """One step of one member, in place; nothing changes if its numbers are not finite."""
        ensemble, (state, inputs, seed) = self.ensemble, member
        device = state.parameters.device
        x = as_channels_last(self.data.of_step(given, index))
        vector = state.parameters[0].detach().requires_grad_()
        step = torch.tensor(number, device=device)
        drawn = {**noise, **self.data.condition(index)}
        values, buffers = first_member(inputs.strengths), first_member(state.buffers)
        with counter.seeded(seed, f"step {number}", device) if ensemble.draws else nullcontext():
            loss, (terms, after) = ensemble.loss(vector, buffers, inputs.masks[0], values, x, drawn, step)
            (gradient,) = torch.autograd.grad(loss, vector)
        row = {name: float(term.detach()) for name, term in terms.items()}
        row[GRADIENT_NORM] = float(torch.linalg.vector_norm(gradient))
        if all(math.isfinite(value) for value in row.values()):
            in_blocks = partial(apply, block=BLOCK_SIZE)
            ensemble.update(state.parameters, gradient[None], state.slots, step, inputs, in_blocks)
            for name, buffer in buffers.items():
                buffer.copy_(after[name].detach())
        return row


class StackedEngine:
    """Trains all members at once: their losses are batched over parameters.

    On a GPU a step is one program in one graph, which reads the items and the noise of the step from buffers on the
    device; the host only launches it, after it has filled the buffer of the items if these are streamed. The program is
    compiled, or traced alone, which starts sooner. On a CPU steps run one by one, traced if they are many.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        data: Batches,
        order: BatchOrder,
        compiled: bool = False,
        traces: bool = False,
    ) -> None:
        self.ensemble, self.data, self.order, self.compiled = ensemble, data, order, compiled
        self._graph: _Graph | None = None
        self.cpu_step = TracedStep(self.step_on, traces)

    def run(self, state: State, stop: int) -> Records:
        """Advance to step `stop`."""
        ensemble, steps = self.ensemble, range(state.step, stop)
        indices = self.order.indices(steps)
        seeds, like = ensemble.inputs.seeds, state.parameters
        noise = draw_noise(ensemble.noise, seeds, steps, self.order.batch, like.dtype, like.device)
        if state.parameters.is_cuda:
            if self._graph is None:
                self._graph = self._captured(state, indices, noise)
            records = self._graph.run(steps, indices, self.data.steps(indices), noise)
        else:
            rows = []
            for position, (number, items) in enumerate(zip(steps, self.data.steps(indices), strict=True)):
                index = indices[position]
                x = self.data.of_step(items, index)
                drawn = {name: draw[position] for name, draw in noise.items()} | self.data.condition(index)
                rows.append(self.cpu_step(state, x, drawn, torch.tensor(number), ensemble.inputs))
            records = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        state.step = stop
        return {name: record.cpu().double() for name, record in records.items()}

    def _captured(self, state: State, indices: Tensor, noise: dict[str, Tensor]) -> _Graph:
        """The step as a graph: one model without a compiler is fastest by the kernels of libraries."""
        inputs, room = self.ensemble.inputs, self.ensemble.plan.log_every
        # Before any thread reads ahead: none may take pinned memory while a graph is recorded.
        given = self.data.example(indices[0])
        if self.compiled or len(inputs.masks) > 1:
            return _Graph(self.step, state, indices, given, noise, inputs, room, self.compiled)
        with library_convolutions():
            return _Graph(self.single_step, state, indices, given, noise, inputs, room, compiled=False)

    def step(
        self,
        parameters: Float[Tensor, "members size"],
        slots: Slots,
        buffers: dict[str, Tensor],
        index: Tensor,
        given: dict[str, Tensor],
        noise: dict[str, Tensor],
        step: Tensor,
        inputs: MemberInputs,
    ) -> dict[str, Float[Tensor, "members"]]:
        """One step of every member, in place."""
        x = self.data.of_step(given, index)
        return self.step_on(parameters, slots, buffers, x, noise | self.data.condition(index), step, inputs)

    def step_on(
        self,
        parameters: Float[Tensor, "members size"],
        slots: Slots,
        buffers: dict[str, Tensor],
        x: Float[Tensor, "members batch ..."],
        noise: dict[str, Tensor],
        step: Tensor,
        inputs: MemberInputs,
    ) -> dict[str, Float[Tensor, "members"]]:
        """`step` on items that have been read."""
        ensemble = self.ensemble
        gradient, (_, (terms, after)) = vmap(grad_and_value(partial(ensemble.loss, step=step), has_aux=True))(
            parameters, buffers, inputs.masks, inputs.strengths, x, noise
        )
        ensemble.update(parameters, gradient, slots, step, inputs)
        for name, buffer in buffers.items():
            buffer.copy_(after[name])
        return {**terms, GRADIENT_NORM: torch.linalg.vector_norm(gradient, dim=1)}

    def single_step(
        self,
        parameters: Float[Tensor, "1 size"],
        slots: Slots,
        buffers: dict[str, Tensor],
        index: Tensor,
        given: dict[str, Tensor],
        noise: dict[str, Tensor],
        step: Tensor,
        inputs: MemberInputs,
    ) -> dict[str, Float[Tensor, "1"]]:
        """`step` for the only member, not batched, for the kernels of libraries: images have the channels last."""
        ensemble = self.ensemble
        x = self.data.of_step(given, index[0])
        x = x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
        drawn = first_member(noise) | self.data.condition(index[0])
        values, held = first_member(inputs.strengths), first_member(buffers)
        gradient, (_, (terms, after)) = grad_and_value(partial(ensemble.loss, step=step), has_aux=True)(
            parameters[0], held, inputs.masks[0], values, x, drawn
        )
        ensemble.update(parameters, gradient[None], slots, step, inputs, apply_fused)
        for name, buffer in held.items():
            buffer.copy_(after[name])
        norm = torch.linalg.vector_norm(gradient)
        return {name: term[None] for name, term in {**terms, GRADIENT_NORM: norm}.items()}


class _Graph:
    """A step captured once, compiled or as it is, replayed for every later step on the same tensors."""

    def __init__(
        self,
        step: Callable[..., dict[str, Tensor]],
        state: State,
        indices: Tensor,
        given: dict[str, Tensor],
        noise: dict[str, Tensor],
        inputs: MemberInputs,
        room: int,
        compiled: bool,
    ) -> None:
        def with_room(values: Tensor) -> Tensor:
            return torch.zeros((room, *values.shape[1:]), dtype=values.dtype, device=values.device)

        device = state.parameters.device
        self.indices, self.noise = with_room(indices), {name: with_room(draw) for name, draw in noise.items()}
        self.indices[: len(indices)] = indices
        self.given = {name: items.clone() for name, items in given.items()}
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.number = torch.zeros((), dtype=torch.int64, device=device)
        self.state, self.inputs = state, inputs
        before = state.copy()
        example = (
            state.parameters,
            state.slots,
            state.buffers,
            self.indices[0],
            self.given,
            {name: draw[0] for name, draw in self.noise.items()},
            self.number,
            inputs,
        )
        program = traced(step, example)  # its effect on the state is undone below
        if compiled:
            program = torch.compile(program, fullgraph=True, dynamic=False)
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
            self.given,
            {name: draw.index_select(0, self.position)[0] for name, draw in self.noise.items()},
            self.number,
            self.inputs,
        )
        for name, row in rows.items():
            self.records[name].index_copy_(0, self.position, row[None].to(self.records[name].dtype))
        self.position.add_(1)
        self.number.add_(1)

    def run(
        self, steps: range, indices: Tensor, given: Iterable[Mapping[str, Tensor]], noise: dict[str, Tensor]
    ) -> Records:
        """Replay the step once for each of `steps`."""
        self.indices[: len(steps)] = indices
        for name, draw in noise.items():
            self.noise[name][: len(steps)] = draw
        self.position.zero_()
        self.number.fill_(steps.start)
        for _, items in zip(steps, given, strict=True):
            for name, rows in items.items():
                self.given[name].copy_(rows)
            self.graph.replay()
        return {name: record[: len(steps)].clone() for name, record in self.records.items()}


def first_member(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The named tensors of the first member of a stack."""
    return {name: tensor[0] for name, tensor in tensors.items()}


def first_not_finite(records: Records) -> tuple[int, int, str] | None:
    """The step (within the records), the member and the term of the first number that is not finite."""
    names = [name for name in records if name != "loss"] + ["loss"]
    broken = torch.stack([~torch.isfinite(records[name]) for name in names], dim=-1)
    if not broken.any():
        return None
    position, member, term = (int(number) for number in broken.nonzero()[0])
    return position, member, names[term]


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
    """Make glibc keep the memory that a step frees for the next step.

    By default it is returned to the system, and the next step spends a tenth of its time or more on page faults. Other
    C libraries are left unchanged.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None and mallopt(M_MMAP_THRESHOLD, MMAP_BYTES):
        mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
