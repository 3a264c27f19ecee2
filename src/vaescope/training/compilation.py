"""Whether to compile a training step: only where the compiler's time pays back within the steps that are planned.

The choice depends on the plan alone, never on what ran before, so that the same call trains with the same program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vaescope.errors import ConfigurationError

# Steps from which on compiling pays back, by number of members; measured on one H200 with torch 2.11.
BREAK_EVEN = ((1, 30_000), (32, 3_000))


@dataclass(frozen=True)
class CompilationChoice:
    """Whether the training step is compiled, and why or why not."""

    compiled: bool
    reason: str


def break_even_steps(members: int) -> int:
    """The number of steps from which on compiling pays back: a power of the number of members, constant outside."""
    (fewest, most_steps), (most, fewest_steps) = BREAK_EVEN
    place = math.log(min(max(members, fewest), most) / fewest) / math.log(most / fewest)
    share: float = (fewest_steps / most_steps) ** place
    return round(most_steps * share)


def choose_compilation(
    device: str, members: int, steps: int, asked: bool | None = None, one_by_one: str = ""
) -> CompilationChoice:
    """Whether to compile the step.

    Args:
        device: The type of the device: 'cpu', 'cuda' or 'mps'.
        members: Number of models that train together.
        steps: Number of steps planned.
        asked: What the caller wants; None leaves the choice to the plan.
        one_by_one: Why members train one after another without a program; empty if they do not.
    """
    obstacle = f"device {device!r} runs steps without a compiler" if device != "cuda" else one_by_one
    if obstacle:
        if asked:
            raise ConfigurationError(
                f"compile=True needs a CUDA device and a model that torch can batch, but {obstacle}. Leave compile out."
            )
        return CompilationChoice(False, obstacle)
    if asked is not None:
        return CompilationChoice(asked, f"compile={asked} was given")
    needed = break_even_steps(members)
    models = f"{members} model{'s' * (members > 1)}"
    verb = "reach" if steps >= needed else "are fewer than"
    reason = f"{steps} planned steps of {models} {verb} the {needed} from which on compiling pays back"
    return CompilationChoice(steps >= needed, reason)
