"""The callback in a real Trainer: what it counts, where it logs, and that it does not change the training."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vaescope.errors import CollapseWarning, ConfigurationError, DataError, UnknownNameError
from vaescope.integrations.lightning import PolarisedRegimeCallback
from vaescope.regime.variable_types import VariableTypes, variable_types

pytestmark = [
    # Lightning's advice on speed, and its use of functions that newer versions of torch deprecate.
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated"),
]
KINDS = ("active", "mixed", "passive")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def items(count: int = 256) -> Tensor:
    """Two factors in six dimensions."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 2, generator=generator) @ torch.randn(2, 6, generator=generator)


class TinyVAE(LightningModule):
    """A linear VAE with four latents, of which the data need two; `beta` is the weight of the rate."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.decoder = nn.Linear(4, 6)
        self.frozen = nn.Dropout(0.9).eval()
        self.beta = beta
        self.training_when_encoded: list[bool] = []

    def encode(self, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
        self.training_when_encoded.append(self.training)
        mean, log_variance = self.encoder(batch[0]).chunk(2, 1)
        return mean, log_variance

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        mean, log_variance = self.encode(batch)
        sample = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        distortion = (self.decoder(sample) - batch[0]).square().sum(1) / 0.1
        rate = 0.5 * (log_variance.exp() - log_variance - 1 + mean.square()).sum(1)
        return (distortion + self.beta * rate).mean()

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.encode(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.02)


def probe(count: int = 100) -> list[Tensor]:
    return [items()[:count]]


def trainer_of(*callbacks: Any, **options: Any) -> Trainer:
    defaults = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "accelerator": "cpu",
        "max_epochs": -1,
        "max_steps": 40,
        "limit_val_batches": 0,
    }
    return Trainer(callbacks=list(callbacks), **{**defaults, **options})


def trained(callback: PolarisedRegimeCallback | None, module: LightningModule | None = None, **options: Any) -> Trainer:
    torch.manual_seed(0)
    module = TinyVAE() if module is None else module
    trainer = trainer_of(*([] if callback is None else [callback]), **options)
    loader = DataLoader(TensorDataset(items()), batch_size=64)
    trainer.fit(module, loader, loader)
    return trainer


class Steps:
    """An `encode` that records the steps at which it is called; the first call is to recognise what it returns."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, module: Any, batch: list[Tensor]) -> dict[str, Tensor]:
        self.seen.append(module.trainer.global_step)
        return dict(zip(("mean", "log_variance"), module.encode(batch), strict=True))


def test_the_counts_are_those_of_the_probe_under_the_weights_of_that_step() -> None:
    callback, module = PolarisedRegimeCallback(probe(), every=40), TinyVAE()
    trainer = trained(callback, module)
    expected = final_types(module)
    assert callback.types is not None
    assert callback.types.by_rule == expected.by_rule
    assert {kind: float(trainer.callback_metrics[kind]) for kind in KINDS} == expected.counts


def test_unneeded_latents_become_passive_and_needed_ones_active_without_a_warning() -> None:
    callback = PolarisedRegimeCallback(probe(), every=50)
    trained(callback, TinyVAE(beta=1.5), max_steps=1000)
    assert callback.types is not None
    assert callback.types.counts == {"active": 2, "mixed": 0, "passive": 2}


def test_it_probes_every_n_steps_and_the_final_weights() -> None:
    steps = Steps()
    trained(PolarisedRegimeCallback(probe(), steps, every=15))
    assert steps.seen == [0, 15, 30, 40]


def final_types(module: TinyVAE) -> VariableTypes:
    with torch.no_grad():
        mean, log_variance = module.eval().encode(probe())
    return variable_types((mean, log_variance.double().exp()))


@pytest.mark.parametrize("every", [100, None])
def test_a_training_shorter_than_the_first_period_ends_with_types_of_the_final_weights(
    every: int | None, tmp_path: Path
) -> None:
    callback, module = PolarisedRegimeCallback(probe(), every=every, prefix="probe/"), TinyVAE(beta=1.5)
    logger = CSVLogger(tmp_path)
    trainer = trained(callback, module, max_steps=48, logger=logger)
    assert callback.types is not None
    assert callback.types.by_rule == final_types(module).by_rule
    metrics = {kind: float(trainer.callback_metrics[f"probe/{kind}"]) for kind in KINDS}
    assert metrics == callback.types.counts
    last = dict(zip(*(line.split(",") for line in logged(logger)[:2]), strict=True))
    assert {kind: float(last[f"probe/{kind}"]) for kind in KINDS} == callback.types.counts
    assert float(last["step"]) == 48


def test_the_last_probe_replaces_the_counts_of_the_one_before() -> None:
    callback = PolarisedRegimeCallback(probe(), scripted(4, 3, 1), every=15)
    with pytest.warns(CollapseWarning, match="step 40"):
        trainer = trained(callback)
    assert float(trainer.callback_metrics["active"]) == 1


def logged(logger: CSVLogger) -> list[str]:
    logger.save()
    return Path(logger.log_dir, "metrics.csv").read_text().split()


def test_batches_without_an_optimiser_step_are_not_probed_twice() -> None:
    steps = Steps()
    trained(PolarisedRegimeCallback(probe(), steps, every=3), max_steps=8, accumulate_grad_batches=2)
    assert steps.seen == [0, 3, 6, 8]


def test_it_probes_after_each_validation_epoch_but_not_after_the_sanity_check() -> None:
    steps = Steps()
    callback = PolarisedRegimeCallback(probe(), steps, every=None, prefix="probe/")
    trainer = trained(callback, max_steps=12, limit_val_batches=1, num_sanity_val_steps=1)
    assert steps.seen == [0, 4, 8, 12]
    assert sum(float(trainer.callback_metrics[f"probe/{kind}"]) for kind in KINDS) == 4
    trainer.validate(trainer.lightning_module, DataLoader(TensorDataset(items()), 64), verbose=False)
    assert len(steps.seen) == 4
    assert callback.types is not None


def test_the_progress_bar_shows_the_counts_until_the_next_probe() -> None:
    trainer = trained(PolarisedRegimeCallback(probe(), every=15, prefix="probe_"))
    assert sum(trainer.progress_bar_metrics[f"probe_{kind}"] for kind in KINDS) == 4


def test_every_probe_is_logged(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path)
    trained(PolarisedRegimeCallback(probe(), every=15), logger=logger, log_every_n_steps=50)
    header, *rows = logged(logger)
    table = [dict(zip(header.split(","), map(float, row.split(",")), strict=True)) for row in rows]
    assert [row["step"] for row in table] == [15, 30, 40]
    assert all(sum(row[kind] for kind in KINDS) == 4 for row in table)


def test_probing_does_not_change_the_training() -> None:
    def noisy(module: Any, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
        mean, log_variance = module.encode(batch)
        return mean + 0.01 * torch.randn_like(mean), log_variance.exp()

    seen, unseen = TinyVAE(), TinyVAE()
    unseen.load_state_dict(seen.state_dict())
    trained(PolarisedRegimeCallback(probe(), noisy, every=5), seen)
    trained(None, unseen)
    assert all(torch.equal(one, two) for one, two in zip(seen.parameters(), unseen.parameters(), strict=True))


def test_the_probe_is_encoded_in_evaluation_mode_and_every_submodule_returns_to_its_mode() -> None:
    module = TinyVAE()
    trained(PolarisedRegimeCallback(probe(), every=1), module, max_steps=3)
    assert module.training_when_encoded == [False, *[True, False] * 3]
    assert module.training
    assert module.encoder.training
    assert not module.frozen.training


def test_a_module_in_half_precision_is_probed_in_half_precision() -> None:
    callback = PolarisedRegimeCallback(probe(), every=2)
    trained(callback, max_steps=2, precision="bf16-true")
    assert callback.types is not None
    assert callback.types.statistics.count == 100


def scripted(*actives: int) -> Any:
    """An `encode` with these numbers of active latents, probe by probe, out of four; the others are passive."""
    probes = iter((actives[0], *actives))  # the first is to recognise what is returned

    def encode(module: Any, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
        active = torch.arange(4) < next(probes)
        variance = torch.where(active, 0.01, 1.0).expand(len(batch[0]), 4)
        return torch.zeros_like(variance), variance

    return encode


def announced(caught: pytest.WarningsRecorder) -> list[str]:
    return [str(warning.message) for warning in caught if issubclass(warning.category, CollapseWarning)]


def test_there_is_one_warning_when_collapse_begins() -> None:
    callback = PolarisedRegimeCallback(probe(), scripted(3, 2, 1, 0), every=10)
    with pytest.warns(CollapseWarning) as caught:
        trained(callback)
    [message] = announced(caught)
    assert "step 30" in message
    assert "2 of 3 active latents" in message


def test_a_collapsing_module_causes_a_warning() -> None:
    module = TinyVAE(beta=0.01)
    trained(None, module, max_steps=200)
    module.beta = 1000.0
    with pytest.warns(CollapseWarning, match="active latents"):
        trained(PolarisedRegimeCallback(probe(), every=5), module, max_steps=300)


def test_a_module_without_active_latents_warns_once() -> None:
    with pytest.warns(CollapseWarning, match="step 500") as caught:
        trained(PolarisedRegimeCallback(probe(), scripted(*[0] * 6), every=100), max_steps=600)
    assert len(announced(caught)) == 1


def test_without_a_known_number_of_steps_inactive_latents_do_not_warn() -> None:
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter([[items()[:2]] for _ in range(510)])

    trainer = trainer_of(PolarisedRegimeCallback(probe(), scripted(0, 0), every=505), max_epochs=1, max_steps=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        trainer.fit(TinyVAE(), DataLoader(Endless(), batch_size=None))
    assert trainer.global_step == 510


def test_a_resumed_training_remembers_the_number_of_active_latents(tmp_path: Path) -> None:
    checkpoint = tmp_path / "last.ckpt"
    trained(PolarisedRegimeCallback(probe(), scripted(4), every=10), max_steps=10).save_checkpoint(checkpoint)
    resumed = trainer_of(PolarisedRegimeCallback(probe(), scripted(1), every=10), max_steps=20)
    with pytest.warns(CollapseWarning, match="step 20.* 3 of 4 active"):
        resumed.fit(TinyVAE(), DataLoader(TensorDataset(items()), batch_size=64), ckpt_path=checkpoint)


def test_a_second_training_starts_with_a_fresh_state() -> None:
    callback = PolarisedRegimeCallback(probe(), scripted(4), every=10)
    trained(callback, max_steps=10)
    callback.encode = scripted(1)
    trained(callback, max_steps=10)
    assert callback.types is not None
    assert callback.types.counts["active"] == 1


RETURNED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "log-variance": lambda mean, log_variance: (mean, log_variance),
    "a mapping": lambda mean, log_variance: {"mu": mean, "logvar": log_variance},
    "a distribution": lambda mean, log_variance: torch.distributions.Normal(mean, (log_variance / 2).exp()),
    "spatial": lambda mean, log_variance: (mean[:, :, None, None], log_variance[:, :, None, None]),
}


@pytest.mark.parametrize("form", RETURNED)
def test_what_the_method_encode_returns_is_recognised(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    callback, plain, module = PolarisedRegimeCallback(probe()), PolarisedRegimeCallback(probe()), TinyVAE()
    other = copy.deepcopy(module)
    trained(plain, other)
    training_encode = TinyVAE.encode
    monkeypatch.setattr(
        TinyVAE,
        "encode",
        lambda self, batch: (
            training_encode(self, batch) if self.training else RETURNED[form](*training_encode(self, batch))
        ),
    )
    trained(callback, module)
    assert callback.types is not None
    assert plain.types is not None
    assert callback.types.by_rule == plain.types.by_rule


@pytest.mark.parametrize(
    ("spread", "read"), [("variance", lambda v: v), ("std", lambda v: v**0.5), ("log_variance", lambda v: v.log())]
)
def test_spread_defines_the_second_of_a_pair(spread: Any, read: Callable[[Tensor], Tensor]) -> None:
    mean, variance = torch.zeros(50, 3), torch.tensor([0.04, 0.5, 1.0]).expand(50, 3)
    callback = PolarisedRegimeCallback(probe(), lambda module, batch: (mean, read(variance)), spread=spread)
    trained(callback, max_steps=2)
    assert callback.types is not None
    assert callback.types.types == ("active", "mixed", "passive")


def test_a_pair_without_negative_numbers_needs_spread_before_training() -> None:
    class Positive(TinyVAE):
        def encode(self, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
            return batch[0].abs(), batch[0].abs()

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            raise AssertionError("training must not begin")

    with pytest.raises(ConfigurationError, match=r"encode of Positive .*no negative number.*spread='variance'"):
        trained(PolarisedRegimeCallback(probe()), Positive())
    with pytest.raises(UnknownNameError, match="spread must be one of"):
        PolarisedRegimeCallback(probe(), spread="width")  # type: ignore[arg-type]


def test_a_posterior_with_its_own_prior_is_compared_with_it() -> None:
    mean, variance = 5 + torch.zeros(50, 2), torch.full((50, 2), 0.01)
    parts = {"mean": mean, "variance": variance, "prior_mean": mean, "prior_variance": variance}
    callback = PolarisedRegimeCallback(probe(), lambda module, batch: parts)
    trained(callback, max_steps=2)
    assert callback.types is not None
    assert callback.types.types == ("passive", "passive")


def test_codes_that_are_not_finite_are_an_error_with_the_step() -> None:
    def broken(module: Any, batch: list[Tensor]) -> tuple[Tensor, Tensor]:
        return torch.full((5, 4), math.nan), torch.zeros(5, 4)

    with pytest.raises(DataError, match=r"step 2.* mean must be finite.* item 0"):
        trained(PolarisedRegimeCallback(probe(), broken, every=2))


@pytest.mark.parametrize(
    ("codes", "facts"),
    [
        (torch.zeros(5, 4), r"encode of TinyVAE .*one tensor of shape \(5, 4\).*encode="),
        ((torch.zeros(5, 4), torch.zeros(5, 3)), r"\(5, 4\), \(5, 3\)"),
        ((torch.zeros(5, 4), -torch.ones(5, 4)), "negative.*log-variance"),
        ((torch.zeros(1, 4), torch.zeros(1, 4)), "at least 2 .*got 1"),
    ],
)
def test_an_encode_that_returns_something_else_is_an_error(codes: Any, facts: str) -> None:
    with pytest.raises((ConfigurationError, DataError), match=facts):
        trained(PolarisedRegimeCallback(probe(), lambda module, batch: codes, every=1))


def test_a_module_without_encode_is_an_error_before_training() -> None:
    class Plain(LightningModule):
        def training_step(self, batch: Any, batch_idx: int) -> None:
            raise AssertionError("training must not begin")

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            raise AssertionError("training must not begin")

        def configure_optimizers(self) -> None:
            return None

    with pytest.raises(ConfigurationError, match=r"^Plain .*encode\(batch\).* encode="):
        trained(PolarisedRegimeCallback(probe()), Plain())


@pytest.mark.parametrize(("settings", "name"), [({"every": 0}, "every"), ({"alpha": 0.5}, "alpha")])
def test_a_setting_out_of_range_is_an_error(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must "):
        PolarisedRegimeCallback(probe(), **settings)
