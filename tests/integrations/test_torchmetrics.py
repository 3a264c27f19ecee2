"""The metric equals the types of all codes at once, however they are split over batches, metrics and processes."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import MetricCollection

import vaescope
from vaescope.errors import ConfigurationError, DataError
from vaescope.integrations import extra
from vaescope.integrations.torchmetrics import VariableTypesMetric
from vaescope.regime.variable_types import VariableTypes, variable_types

SIZES = (7, 1, 64, 128, 30)


def posteriors(items: int = sum(SIZES), seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two active latents, one passive, one mixed between them and one mixed in a mixture, as float32."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(items, 5, generator=generator)
    mean[:, 2] *= 0.01
    variance = torch.tensor([0.01, 0.02, 1.0, 0.5, 0.0]) * torch.ones(items, 5)
    variance[:, 4] = torch.where(torch.rand(items, generator=generator) < 0.5, 0.02, 0.98)
    return mean + 3, variance.log() + 0.02 * torch.randn(items, 5, generator=generator)


def posterior(items: int = sum(SIZES), seed: int = 0) -> dict[str, Tensor]:
    return dict(zip(("mean", "log_variance"), posteriors(items, seed), strict=True))


def at_once(mean: Tensor, log_variance: Tensor) -> VariableTypes:
    return variable_types((mean, log_variance.double().exp()))


def updated(metric: VariableTypesMetric, mean: Tensor, log_variance: Tensor, sizes: tuple[int, ...] = SIZES) -> None:
    for batch in zip(mean.split(sizes), log_variance.split(sizes), strict=True):
        metric.update(batch[0], log_variance=batch[1])


def assert_same(found: VariableTypes, expected: VariableTypes) -> None:
    assert found.by_rule == expected.by_rule
    assert found.mixed_kinds == expected.mixed_kinds
    one, two = found.statistics, expected.statistics
    assert one.count == two.count
    for name in ("negligible", "passive", "histogram"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    torch.testing.assert_close(one.kl, two.kl)
    for name in ("mean", "variance"):
        torch.testing.assert_close(getattr(one, name).mean, getattr(two, name).mean)
        torch.testing.assert_close(getattr(one, name).variance, getattr(two, name).variance)


def counts(metric: VariableTypesMetric) -> dict[str, float]:
    return {name: float(value) for name, value in metric.compute().items()}


def test_batches_of_different_sizes_give_the_types_of_all_codes_at_once() -> None:
    metric = VariableTypesMetric(5)
    updated(metric, *posteriors())
    assert counts(metric) == {"active": 2, "mixed": 2, "passive": 1}
    assert metric.types().mixed_kinds == (None, None, None, "intermediate", "mixture")
    assert_same(metric.types(), at_once(*posteriors()))


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 99), max_size=6, unique=True), seed=st.integers(0, 50))
def test_no_split_into_batches_changes_the_types(cuts: list[int], seed: int) -> None:
    edges = [0, *sorted(cuts), 100]
    sizes = tuple(after - before for before, after in pairwise(edges))
    metric = VariableTypesMetric(5)
    updated(metric, *posteriors(100, seed), sizes)
    assert_same(metric.types(), at_once(*posteriors(100, seed)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_codes_of_any_float_type_are_read_in_double_precision(dtype: torch.dtype) -> None:
    mean, log_variance = (values.to(dtype) for values in posteriors())
    metric = VariableTypesMetric(5).half()
    updated(metric, mean, log_variance)
    assert_same(metric.types(), at_once(mean, log_variance))
    assert metric.mean_spread.dtype == torch.float64


def test_the_spread_is_exact_for_a_mean_far_from_zero() -> None:
    mean, log_variance = (values.double() for values in posteriors())
    metric = VariableTypesMetric(5)
    updated(metric, mean + 1e8, log_variance)
    torch.testing.assert_close(metric.types().statistics.mean.variance, mean.var(0, correction=0), rtol=1e-6, atol=0)


def test_codes_with_gradients_are_accepted_and_no_gradients_are_kept() -> None:
    mean, log_variance = (values.requires_grad_() for values in posteriors())
    metric = VariableTypesMetric(5)
    value = metric(mean, log_variance=log_variance)
    assert not any(tensor.requires_grad for tensor in [*value.values(), *metric.metric_state.values()])


def test_reset_clears_everything() -> None:
    metric = VariableTypesMetric(5)
    updated(metric, torch.zeros(50, 5), torch.zeros(50, 5), (50,))
    assert counts(metric)["passive"] == 5
    metric.reset()
    updated(metric, *posteriors())
    assert_same(metric.types(), at_once(*posteriors()))


def test_forward_gives_the_value_of_the_batch_and_keeps_all_batches() -> None:
    metric = VariableTypesMetric(5)
    assert {
        name: float(value) for name, value in metric(torch.zeros(9, 5), log_variance=torch.zeros(9, 5)).items()
    } == {
        "active": 0,
        "mixed": 0,
        "passive": 5,
    }
    value = metric(posterior())
    assert {name: float(count) for name, count in value.items()} == at_once(*posteriors()).counts
    together = [torch.cat([torch.zeros(9, 5), values]) for values in posteriors()]
    assert_same(metric.types(), at_once(*together))


def test_a_batch_of_one_item_has_no_types_but_is_accumulated() -> None:
    mean, log_variance = posteriors()
    metric = VariableTypesMetric(5)
    metric(mean[:-1], log_variance=log_variance[:-1])
    assert all(math.isnan(value) for value in metric(mean[-1:], log_variance=log_variance[-1:]).values())
    assert_same(metric.types(), at_once(mean, log_variance))


def test_one_item_has_no_types() -> None:
    metric = VariableTypesMetric(5)
    metric.update(posterior(1))
    with pytest.raises(DataError, match=r"at least 2 .*got 1"):
        metric.types()


def test_merging_the_state_of_another_metric_gives_the_types_of_both() -> None:
    mean, log_variance = posteriors()
    one, two = VariableTypesMetric(5), VariableTypesMetric(5)
    one.update(torch.zeros(9, 5), log_variance=torch.zeros(9, 5))
    two.update(mean, log_variance=log_variance)
    before = counts(one)
    one.merge_state(two)
    together = [torch.cat([torch.zeros(9, 5), values]) for values in (mean, log_variance)]
    assert counts(one) == at_once(*together).counts != before
    assert_same(one.types(), at_once(*together))


@pytest.mark.parametrize(
    ("other", "facts"),
    [(VariableTypesMetric(4), "latents, got 4 and 5"), (VariableTypesMetric(5, alpha=0.2), "alpha, got 0.1 and 0.2")],
)
def test_metrics_with_different_settings_do_not_merge(other: VariableTypesMetric, facts: str) -> None:
    metric = VariableTypesMetric(5)
    metric.update(posterior())
    with pytest.raises(DataError, match=facts):
        metric.merge_state(other)
    assert_same(metric.types(), at_once(*posteriors()))


def in_processes(metrics: list[VariableTypesMetric]) -> VariableTypesMetric:
    """The first metric, gathering from the others as torch.distributed would: each state in the order of processes."""
    here = metrics[0]

    def gather(state: Tensor, group: object = None) -> list[Tensor]:
        name = next(name for name in here.metric_state if getattr(here, name) is state)
        return [getattr(metric, name) for metric in metrics]

    here.dist_sync_fn, here.distributed_available_fn = gather, lambda: True
    return here


def test_processes_are_reduced_to_the_types_of_all_and_continue_separately() -> None:
    mean, log_variance = posteriors()
    metrics = [VariableTypesMetric(5) for _ in range(3)]
    for metric, rows in zip(metrics, (slice(0, 20), slice(20, 21), slice(21, None)), strict=True):
        metric.update(mean[rows], log_variance=log_variance[rows])
    first = in_processes(metrics)
    assert counts(first) == at_once(mean, log_variance).counts
    assert_same(first.types(), at_once(mean, log_variance))
    assert int(first.mean_spread[0, 0]) == 20
    first.update(posterior(10, seed=1))
    together = [torch.cat(parts) for parts in zip((mean, log_variance), posteriors(10, seed=1), strict=True)]
    assert_same(first.types(), at_once(*together))


@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.filterwarnings("ignore:The ``compute`` method:UserWarning")
def test_a_process_without_a_batch_changes_nothing(empty: int) -> None:
    metrics = [VariableTypesMetric(5), VariableTypesMetric(5)]
    metrics[1 - empty].update(posterior())
    first = in_processes(metrics)
    assert counts(first) == at_once(*posteriors()).counts
    assert_same(first.types(), at_once(*posteriors()))


def test_after_an_error_for_too_few_items_the_metric_accepts_more() -> None:
    first = in_processes([VariableTypesMetric(5), VariableTypesMetric(5)])
    first.update(posterior(1))
    with pytest.raises(DataError, match="at least 2 "):
        first.types()
    first.update(posterior())
    assert first.types().statistics.count == 1 + sum(SIZES)


def test_a_collection_names_the_counts_and_separates_thresholds() -> None:
    collection = MetricCollection(
        {"narrow": VariableTypesMetric(5), "wide": VariableTypesMetric(5, alpha=0.45)}, prefix="validation/"
    )
    # On the first batch both have the same counts, so a collection could merge them.
    collection.update(torch.zeros(20, 5), log_variance=torch.zeros(20, 5))
    collection.update(torch.full((80, 5), 0.3), log_variance=torch.zeros(80, 5))
    assert {name: float(value) for name, value in collection.compute().items()} == {
        f"validation/{metric}_{kind}": 5.0 if kind == "passive" else 0.0
        for metric in ("narrow", "wide")
        for kind in ("active", "mixed", "passive")
    }
    assert collection["narrow"].types().statistics.passive.tolist() == [20] * 5
    assert collection["wide"].types().statistics.passive.tolist() == [100] * 5


def test_a_metric_survives_copying_and_pickling() -> None:
    metric = VariableTypesMetric(5)
    updated(metric, *posteriors())
    for copy in (metric.clone(), pickle.loads(pickle.dumps(metric))):
        copy.update(posterior(10, seed=1))
        assert copy.types().statistics.count == sum(SIZES) + 10
    assert_same(metric.types(), at_once(*posteriors()))


def spoilt(value: float) -> Tensor:
    return torch.zeros(4, 2).index_put((torch.tensor(3), torch.tensor(1)), torch.tensor(value))


MEAN, LOG_VARIANCE = posteriors(50)
VARIANCE = LOG_VARIANCE.double().exp()
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "variance": (MEAN, {"variance": VARIANCE}),
    "log-variance": (MEAN, {"log_variance": LOG_VARIANCE}),
    "standard deviation": (MEAN, {"std": VARIANCE.sqrt()}),
    "logarithm of it": (MEAN, {"log_std": LOG_VARIANCE.double() / 2}),
    "arrays": (MEAN.numpy(), {"variance": VARIANCE.numpy()}),
    "a pair": ((MEAN, VARIANCE), {}),
    "a mapping": ({"mu": MEAN, "logvar": LOG_VARIANCE}, {}),
    "a distribution": (torch.distributions.Normal(MEAN.double(), VARIANCE.sqrt()), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_wrap_reads_gives_the_same_types(form: str) -> None:
    given, named = FORMS[form]
    metric = VariableTypesMetric(5)
    metric.update(given, **named)
    assert_same(metric.types(), at_once(MEAN, LOG_VARIANCE))


def test_channels_of_spatial_posteriors_are_the_latents() -> None:
    mean, log_variance = (part.reshape(10, 5, 5).transpose(1, 2).reshape(10, 5, 5, 1) for part in (MEAN, LOG_VARIANCE))
    metric = VariableTypesMetric(5)
    metric.update(mean, log_variance=log_variance)
    assert_same(metric.types(), at_once(MEAN, LOG_VARIANCE))


@pytest.mark.parametrize(
    ("given", "named", "facts"),
    [
        (MEAN, {}, r"one tensor of shape \(50, 5\)\. Pass update\(mean, variance=\.\.\.\)"),
        ((MEAN, LOG_VARIANCE), {}, "negative.* log-variance"),
        (MEAN, {"variance": VARIANCE, "std": VARIANCE}, "one of variance, .* got variance and std"),
        ({"mean": MEAN, "var": VARIANCE, "prior_mean": MEAN, "prior_var": VARIANCE}, {}, "with its own"),
        ({"top": (MEAN, VARIANCE), "bottom": (MEAN, VARIANCE)}, {}, "got 2: top, bottom"),
    ],
)
def test_inputs_that_are_no_posterior_are_one_sentence(given: Any, named: dict[str, Tensor], facts: str) -> None:
    with pytest.raises((ConfigurationError, DataError), match=facts) as caught:
        VariableTypesMetric(5).update(given, **named)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mean", "log_variance", "facts"),
    [
        (spoilt(math.nan), torch.zeros(4, 2), "^mean .*finite.* nan .*item 3, latent 1"),
        (torch.zeros(4, 2), spoilt(math.nan), "^variance .*finite.* nan .*item 3, latent 1"),
        (torch.zeros(4, 2), spoilt(1000.0), "^variance .*finite.* inf .*item 3, latent 1"),
        (torch.zeros(4, 3), torch.zeros(4, 3), "2 latents, got 3"),
        (torch.zeros(4, 2), torch.zeros(3, 2), r"\(4, 2\) and \(3, 2\)"),
        (torch.zeros(4), torch.zeros(4), r"items x latents, got \(4,\)"),
        (torch.zeros(0, 2), torch.zeros(0, 2), "at least one"),
        (torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.complex64), "real numbers"),
    ],
)
def test_a_wrong_batch_is_an_error_and_leaves_the_state_unchanged(
    mean: Tensor, log_variance: Tensor, facts: str
) -> None:
    metric = VariableTypesMetric(2)
    metric.update(torch.randn(6, 2), log_variance=torch.zeros(6, 2))
    before = {name: state.clone() for name, state in metric.metric_state.items()}
    with pytest.raises(DataError, match=facts):
        metric.update(mean, log_variance=log_variance)
    assert all(torch.equal(before[name], state) for name, state in metric.metric_state.items())


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"latents": 0}, "latents"), ({"alpha": 0.5}, "alpha"), ({"epsilon": 0}, "epsilon"), ({"delta": 1}, "delta")],
)
def test_a_setting_out_of_range_is_an_error(settings: dict[str, float], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must "):
        VariableTypesMetric(**{"latents": 2, **settings})


def test_neither_package_is_loaded_before_its_module_and_a_missing_one_names_its_extra() -> None:
    code = f"""
import sys; sys.path.insert(0, {str(Path(vaescope.__file__).parents[1])!r})
import vaescope, vaescope.regime.variable_types, vaescope.integrations.batch
assert not {{"torchmetrics", "lightning"}} & set(sys.modules)
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("torchmetrics", "lightning"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
for package in ("torchmetrics", "lightning"):
    try:
        __import__(f"vaescope.integrations.{{package}}")
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.rpartition("pip install ")[2] for line in done.stdout.splitlines()] == [
        "vaescope[torchmetrics]`.",
        "vaescope[lightning]`.",
    ]


def test_a_package_with_a_missing_dependency_raises_its_own_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'lightning_utilities'$"), extra("torchmetrics"):
        raise ModuleNotFoundError("No module named 'lightning_utilities'", name="lightning_utilities")
