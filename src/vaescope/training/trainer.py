"""Training in memory: members of one architecture advance together, from one row of their history to the next."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor, nn

from vaescope.data.dataset import Dataset, Subset
from vaescope.errors import ConfigurationError, NonFiniteError, RepetitionWarning
from vaescope.likelihoods import FittedToItems
from vaescope.likelihoods.units import large_scale, takes_any_scale
from vaescope.memory import check_memory, memory_shortage
from vaescope.models import AnyArchitecture, FactoryModel, TrainableModel, likelihood_of
from vaescope.models.architecture import check_fits, without_memory
from vaescope.nets import initialise
from vaescope.numerics.linalg import repeatable_convolutions, tf32_products
from vaescope.numerics.moments import Spread
from vaescope.objectives import in_words
from vaescope.training.batches import Batches, BatchOrder
from vaescope.training.checkpoint import State
from vaescope.training.compilation import choose_compilation
from vaescope.training.device import check_precision, exceeds_memory, free_memory
from vaescope.training.engines import Records, SingleEngine, StackedEngine, first_not_finite
from vaescope.training.ensemble import CRITIC_OPTIMISER, Ensemble
from vaescope.training.layout import Layout, Weights, corner, persistent_buffers, place
from vaescope.training.monitor import HistoryValue, Monitor
from vaescope.training.plan import PRECISIONS, Member, Plan, check_members
from vaescope.training.traced_steps import tracing_pays
from vaescope.training.trial import tried

CHUNK = 4096  # items
SHOWN_ITEMS = 8  # in a message
INDEX_BYTES = 8  # of the position of an item


@dataclass(frozen=True)
class HistoryRow:
    """The values of one member up to a step.

    Attributes:
        member: Position of the member in its ensemble.
        step: Number of steps done.
        split: 'train' (means since the previous row), 'test' (held-out items) or 'probe' (types of the latents).
        values: The values by name.
    """

    member: int
    step: int
    split: str
    values: dict[str, HistoryValue]


class Trainer:
    """Members, data, and the state of their training.

    Training is a function of the plan and the seeds of the members: the numbers are the same for one `advance` to the
    end, for several, or after `load` of an earlier state.
    """

    def __init__(
        self,
        architecture: AnyArchitecture,
        members: Sequence[Member],
        plan: Plan,
        data: Dataset,
        held_out: Dataset | None = None,
        device: torch.device | str = "cpu",
        latents: int | None = None,
        start: TrainableModel | None = None,
        compile: bool | None = None,
        planned_steps: int | None = None,
        streamed: bool | None = None,
    ) -> None:
        """Prepare training.

        Args:
            architecture: The model that all members share.
            members: The settings of each member.
            plan: The settings that all members share.
            data: The training items.
            held_out: Items to evaluate on; default: none.
            device: The device to train on.
            latents: Width of the program, for members with more latents that `assign_slots` brings later; default:
                the largest number of latents among `members`.
            start: A model of the members' size, from whose weights and buffers they start; default: each starts from
                the initial weights of its seed.
            compile: Whether to compile the step on a GPU; default: where that pays back within the planned steps.
            planned_steps: The number of steps that the program will run; default: that of the plan.
            streamed: Whether the items of each step are read ahead and copied to the device; all numbers are the same.
                Default: if all items need more than `MAX_RESIDENT_SHARE` of the free memory of an accelerator.
        """
        self.start = start
        self.architecture, self.members, self.plan = architecture, tuple(members), plan
        check_members(self.members)
        self.device = torch.device(device)
        check_precision(plan, self.device)
        streamed = exceeds_memory(data, self.device) if streamed is None else streamed
        self.data = data if streamed or self.device.type == "cpu" else data.to(self.device)
        self._layouts: dict[int, Layout] = {}
        widest = max([member.latents for member in self.members] + [latents or 1])
        self._check_weights(self._layout(widest))
        model, critic = self._build(widest, seed=0)
        self.ensemble = Ensemble.of(model, critic, self.members, plan, self.device, len(data))
        self._check_noise()
        self.state = self._empty_state()
        for position, member in enumerate(self.members):
            self._fill_slot(position, member, None)
        self.order = BatchOrder(self.ensemble.inputs.seeds, len(data), plan.batch, self.device)
        batches = Batches.of(self.data, model, self.device, streamed)
        stacked = len(self.members) > 1 or self.device.type != "cpu"
        self.ensemble = tried(self.ensemble, batches, self.state, stacked)
        probe = (data if held_out is None else held_out).draw(plan.monitor_items)
        self.monitor = Monitor(self.ensemble, self.members, Batches.of_few(probe, model, self.device))
        self.held_out = None if held_out is None else held_out.draw(plan.evaluation_items)
        self._evaluated = None if self.held_out is None else Batches.of_few(self.held_out, model, self.device)
        steps, obstacle = planned_steps or plan.steps, self.ensemble.one_by_one
        self.compilation = choose_compilation(self.device.type, len(self.members), steps, compile, obstacle)
        # A user's module may depend on how often it was called, which shows too late.
        traces = tracing_pays(steps, certain=planned_steps is None) and not isinstance(model, FactoryModel)
        self.engine: SingleEngine | StackedEngine = (
            StackedEngine(self.ensemble, batches, self.order, self.compilation.compiled, traces)
            if stacked and not obstacle
            else SingleEngine(self.ensemble, batches, self.order)
        )

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.state.step >= self.plan.steps

    def load(self, state: State) -> None:
        """Continue training from an earlier state."""
        wanted, got = (
            (tuple(one.parameters.shape), sorted(one.slots), sorted(one.buffers)) for one in (self.state, state)
        )
        if wanted != got:
            raise ConfigurationError(
                f"a state must have {wanted[0]} parameters, the slots {wanted[1]} and the buffers {wanted[2]}, "
                f"got {got[0]}, {got[1]} and {got[2]}."
            )
        self.state.restore(state)

    def assign_slots(self, members: Sequence[Member], states: Sequence[State | None]) -> None:
        """Replace all members, each with its state; None starts a member from its initial weights.

        The program is reused.
        """
        members, widest = tuple(members), self.ensemble.latents
        check_members((*self.members, *members))
        steps = {0 if state is None else state.step for state in states}
        sizes = {member.latents for member in members}
        latents = max(sizes)
        if not self.ensemble.model.nests and sizes != {widest}:
            raise ConfigurationError(
                f"new members must have {widest} latents, as models of a factory of other sizes share no program, got "
                f"{', '.join(map(str, sorted(sizes)))}."
            )
        if len(members) != len(self.members) or len(steps) != 1 or latents > widest:
            raise ConfigurationError(
                f"new members must be {len(self.members)} with at most {widest} latents, all at one step, got "
                f"{len(members)} with at most {latents} latents at the steps {sorted(steps)}."
            )
        self.members, self.monitor.members = members, members
        self.ensemble.assign_slots(members)
        self.order.forget()
        self.state.step = steps.pop()
        for position, (member, state) in enumerate(zip(members, states, strict=True)):
            self._fill_slot(position, member, state)

    def _fill_slot(self, position: int, member: Member, state: State | None) -> None:
        layout, own = self.ensemble.layout, self._layout(member.latents)
        if state is None:
            model, critic = self._build(member.latents, member.seed)
            critics = {} if critic is None else dict(critic.named_parameters())
            model = model if self.start is None else self.start
            vector = layout.pack(Weights(dict(model.named_parameters()), critics))
            buffers = persistent_buffers(model)
        else:
            vector = layout.widen(state.parameters[0], own)
            buffers = {name: buffer[0] for name, buffer in state.buffers.items()}
        self.state.parameters[position] = vector.to(self.state.parameters)
        for name, slot in self.state.slots.items():
            slot[position] = 0 if state is None else layout.widen(state.slots[name][0], own).to(slot)
        for name, value in buffers.items():
            place(value, self.state.buffers[name][position])

    def advance(self, until: int | None = None) -> list[HistoryRow]:
        """Train to the next row of the history, or to the step `until` before it, and evaluate if that is due.

        An interruption restores the state before the call. A non-finite number that appears again when the steps are
        repeated raises `NonFiniteError` and leaves the state at the last good step.
        """
        before, stop = self.state.copy(), self.plan.next_stop(self.state.step)
        stop = stop if until is None else min(stop, until)
        what = f"the steps of {len(self.members)} models with batches of {self.plan.batch} items"
        shortage = memory_shortage(what, "Choose a smaller batch or net, or train fewer models together.")
        with shortage, tf32_products(PRECISIONS[self.plan.precision].tf32), repeatable_convolutions():
            try:
                records = self._run(before, stop)
                found = {"train": self._by_member({name: record.mean(0) for name, record in records.items()})}
                if self._evaluated is not None and self.plan.evaluates_at(stop):
                    found["test"] = self._by_member(self.ensemble.evaluate(self.state, self._evaluated))
                if self.monitor.has_types and self.plan.monitors_at(stop):
                    found["probe"] = self.monitor.probe(self.state)
            except NonFiniteError:
                raise
            except BaseException:
                self.state.restore(before)
                raise
        return [
            HistoryRow(member, self.state.step, split, values)
            for split, rows in found.items()
            for member, values in enumerate(rows)
        ]

    def _by_member(self, means: dict[str, Tensor]) -> list[dict[str, HistoryValue]]:
        return [{name: float(mean[member]) for name, mean in means.items()} for member in range(len(self.members))]

    def model(self, member: int = 0) -> TrainableModel:
        """A member as a standalone model with its own number of latents, on the CPU."""
        own = self.architecture.build(self.data.shape, self.members[member].latents, seed=0)
        own.pixel_scale = self.data.pixel_scale
        return self.load_into(own, member)

    def load_into(self, model: TrainableModel, member: int) -> TrainableModel:
        """Copy the weights of a member into a model of its size, which stays on its device."""
        state = self.member_state(member)
        weights = self._layout(self.members[member].latents).unpack(state.parameters[0]).model
        buffers = {name: buffer[0] for name, buffer in state.buffers.items()}
        model.to(state.parameters.dtype).load_state_dict({**model.state_dict(), **weights, **buffers})
        return model.eval()

    def member_state(self, member: int) -> State:
        """The state of one member, as if it had been trained alone."""
        layout = self._layout(self.members[member].latents)

        def crop(stacked: Tensor) -> Tensor:
            return self.ensemble.layout.crop(stacked[member].cpu(), layout)[None]

        slots = {name: crop(slot) for name, slot in self.state.slots.items()}
        buffers = {
            name: self.state.buffers[name][member][corner(shape)][None].to("cpu", copy=True)
            for name, shape in layout.buffers.items()
        }
        return State(self.state.step, crop(self.state.parameters), slots, buffers)

    def _build(self, latents: int, seed: int) -> tuple[TrainableModel, nn.Module | None]:
        """A model, and the critic of its objective if it has one."""
        model = self.architecture.build(self.data.shape, latents, seed)
        for module in model.modules():
            if isinstance(module, FittedToItems):
                module.fit_items(self._spread)
        critic = self.members[0].objective.critic(latents)
        if critic is not None:
            # Seeded under the name 'critic', so that the weights of the model are the same as without a critic.
            initialise(nn.ModuleDict({"critic": critic}), str(self.architecture.initialisation), seed)
        return model, critic

    @cached_property
    def _spread(self) -> Spread:
        """Mean and variance of each dimension of the training items."""
        spread_of = Spread.of if self.architecture.missing is None else Spread.of_known
        return reduce(Spread.merge, (spread_of(chunk.flatten(1)) for chunk in self.data.chunks(CHUNK)))

    def _layout(self, latents: int) -> Layout:
        """Parameter layout of a standalone model with `latents` latents."""
        if latents not in self._layouts:
            model = self.architecture.form(self.data.shape, latents)
            with without_memory("the critic of the objective"):
                self._layouts[latents] = Layout.of(model, self.members[0].objective.critic(latents))
        return self._layouts[latents]

    def _check_weights(self, layout: Layout) -> None:
        """Raise an error unless the state, its copy before each chunk of steps, and the gradient fit into memory."""
        copies = len(self.members) * (2 * (1 + len(self._slot_names(layout))) + 1)
        names = (*layout.names, *(f"critic.{name}" for name in layout.critic_names))
        shapes, number = dict(zip(names, layout.shapes, strict=True)), PRECISIONS[self.plan.precision].kept.itemsize
        what = "a model in training" if len(self.members) == 1 else f"{len(self.members)} models in training, each"
        check_fits(what, shapes, copies * number, free_memory(self.device))

    def _slot_names(self, layout: Layout) -> list[str]:
        """The moments that the optimisers of the model and of its critic keep."""
        optimisers = [*([CRITIC_OPTIMISER] if layout.critic_names else []), self.plan.optimiser]
        return list(dict.fromkeys(name for optimiser in optimisers for name in optimiser.slots))

    def _check_noise(self) -> None:
        """Raise an error unless the noise of all steps between two rows of the history fits into memory."""
        plan, number = self.plan, PRECISIONS[self.plan.precision].kept.itemsize
        steps, columns = min(plan.steps, plan.log_every), sum(self.ensemble.noise.values())
        needed = steps * len(self.members) * plan.batch * (INDEX_BYTES + number * columns)
        what = f"the noise of log_every={plan.log_every} steps with batches of {plan.batch} items"
        check_memory(what, needed, "Choose a smaller log_every or batch.", free_memory(self.device))

    def _empty_state(self) -> State:
        """An empty state of the right shapes."""
        kept, members = PRECISIONS[self.plan.precision].kept, len(self.members)
        parameters = torch.zeros(members, self.ensemble.layout.size, dtype=kept, device=self.device)
        slots = {name: torch.zeros_like(parameters) for name in self._slot_names(self.ensemble.layout)}
        buffers = persistent_buffers(self.ensemble.model).items()
        return State(0, parameters, slots, {name: torch.stack([buffer] * members) for name, buffer in buffers})

    def _run(self, before: State, stop: int) -> Records:
        """Run the steps up to `stop`; repeat them once if their numbers are not finite."""
        records = self.engine.run(self.state, stop)
        once = first_not_finite(records)
        if once is None:
            return records
        self.state.restore(before)
        again = self.engine.run(self.state, stop)
        twice = first_not_finite(again)
        if twice is not None:
            raise self._broken(again, before, *twice)
        # Repeated steps are equal up to rounding on a GPU, so a failure that occurs once is one of the machine.
        position, member, term = once
        warnings.warn(
            f"{term} became {float(records[term][position, member])} at step {before.step + position} of "
            f"{self._words(member)}, and is finite after the steps from {before.step} on were repeated; training "
            f"continues. If this happens often, check {self.device}.",
            RepetitionWarning,
            stacklevel=3,
        )
        return again

    def _words(self, member: int) -> str:
        who = self.members[member]
        strengths, rate = in_words(who.objective), f"{who.learning_rate:g}"
        return f"the member with seed {who.seed}, {who.latents} latents, {strengths} and learning rate {rate}"

    def _broken(self, records: Records, before: State, position: int, member: int, term: str) -> NonFiniteError:
        """The error that names the number; the state is restored to that before its step."""
        step = before.step + position
        # Repeat the steps up to the one that failed, to restore the last good state.
        self.state.restore(before)
        if position:
            self.engine.run(self.state, step)
        items = self.order.indices(range(step, step + 1))[0, member].cpu()
        items = self.data.index.cpu()[items] if isinstance(self.data, Subset) else items
        advice = "Lower the learning rate, check these items, or use precision 'float64'."
        likelihood = likelihood_of(self.architecture)
        if not (self.data.is_image or self.architecture.standardise or likelihood is None):
            scale = large_scale(self._spread) if takes_any_scale(likelihood) else ""
            advice = f"{scale[:1].upper()}{scale[1:]}" or advice
        losses = records["loss"][max(0, position - 1) : position + 1, member].tolist()
        return NonFiniteError(
            f"{term} must stay finite, it became {float(records[term][position, member])} at step {step} of "
            f"{self._words(member)}, on the items {_first_of(items.tolist())}, where the loss was "
            f"{' and then '.join(f'{loss:.4g}' for loss in losses)}. {advice}",
            term=term,
            member=member,
            step=step,
            items=items.tolist(),
        )


def _first_of(items: list[int]) -> str:
    """The first of many items, for messages."""
    shown = ", ".join(map(str, items[:SHOWN_ITEMS]))
    return f"{shown}, ... ({len(items)} items)" if len(items) > SHOWN_ITEMS else shown
