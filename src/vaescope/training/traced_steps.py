"""A training step traced into one program: what a GPU captures, and what small models on a CPU run many times."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from vaescope.training.checkpoint import State
from vaescope.training.optimisers import Slots

MIN_TRACED_STEPS = 250  # on a CPU: fewer steps do not save the time that tracing takes
SEARCHED_SHARE = 0.25  # of the planned steps of a search, which usually ends after one of four periods


def traced(step: Callable[..., dict[str, Tensor]], example: tuple[object, ...]) -> Callable[..., dict[str, Tensor]]:
    """The operations of a step on such tensors as one program, whose constants are on the device.

    Tracing runs the step once on the tensors, which it changes.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    program: Callable[..., dict[str, Tensor]] = make_fx(lambda *given: step(*given))(*example)
    return program


def one_fake_mode() -> AbstractContextManager[object]:
    """Share one mode of fake tensors while a step is traced on a CPU.

    Otherwise torch makes a new one for each operation, which takes longer than everything else.
    """
    from torch._guards import TracingContext, tracing
    from torch._subclasses import FakeTensorMode

    context: AbstractContextManager[object] = tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True)))
    return context


class TracedStep:
    """A step on a CPU that runs as a program if there are many; its numbers are the same, bit for bit.

    A step of small nets spends half its time in Python: in vmap, in autograd, and in modules. The program, which has
    none of these, is traced in the first step, and used if it repeats the second one exactly. It does not where a step
    depends on more than its arguments, such as a module's count of its calls.
    """

    def __init__(self, step: Callable[..., dict[str, Tensor]], traces: bool) -> None:
        self.step, self.traces = step, traces
        self.program: Callable[..., dict[str, Tensor]] | None = None
        self._candidate: Callable[..., dict[str, Tensor]] | None = None

    def __call__(self, state: State, *given: object) -> dict[str, Tensor]:
        """Do the step on a state, in place."""
        if self.program is not None:
            return self.program(*_tensors(state), *given)
        if self._candidate is not None:
            copy = state.copy()
            row, again = self.step(*_tensors(state), *given), self._candidate(*_tensors(copy), *given)
            self.program = self._candidate if _equal((row, _tensors(state)), (again, _tensors(copy))) else None
            self._candidate = None
            return row
        if self.traces:
            self.traces = False
            # Tracing raises an error where Python reads a number, such as that of the step.
            with suppress(RuntimeError), one_fake_mode():
                self._candidate = traced(self.step, (*_tensors(state.copy()), *given))
        return self.step(*_tensors(state), *given)


def tracing_pays(planned: int, certain: bool) -> bool:
    """Whether traced steps on a CPU save more time than tracing takes; `certain` if all planned steps will be done."""
    return planned * (1 if certain else SEARCHED_SHARE) >= MIN_TRACED_STEPS


def _tensors(state: State) -> tuple[Tensor, Slots, dict[str, Tensor]]:
    return state.parameters, state.slots, state.buffers


def _equal(one: object, other: object) -> bool:
    """Whether two structures hold the same tensors."""
    return all(torch.equal(*pair) for pair in zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True))
