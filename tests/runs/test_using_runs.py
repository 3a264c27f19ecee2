"""Use of a trained run: codes, reconstructions, samples, interpolations, traversals and a module, for any model and
items.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.errors import ConfigurationError, DataError, RunError

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"
ITEMS, CLASSES, LATENTS = 60, 3, 4
RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (ITEMS, 1, 12, 10), dtype=np.uint8)
ROWS = RANDOM.random((ITEMS, 5)).astype(np.float32)
LABELS = np.arange(ITEMS) % CLASSES
FACTORS = np.stack([np.arange(ITEMS) % 3, np.arange(ITEMS) // 3 % 4], 1)
TINY = {
    "net": {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)},
    "steps": 2,
    "batch": 16,
    "progress": False,
}
MODELS = ("vae", "vgon", "autoencoder", "conditional", "identifiable")


def data_of(model: str) -> vs.Dataset:
    return vs.open_dataset(GREY, labels=LABELS if model == "conditional" else None, factors=FACTORS)


def condition_of(model: str, item: int) -> dict[str, Any]:
    """The keyword that passes the condition of one item."""
    return {"conditional": {"labels": LABELS[item]}, "identifiable": {"factors": FACTORS[item]}}.get(model, {})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, vs.Run]:
    """One run of every model, and one of vectors."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {name: vs.fit(data_of(name), LATENTS, model=name, runs=folder, **TINY) for name in MODELS}
    return {**runs, "vectors": vs.fit(ROWS, 2, runs=folder, **TINY)}


@pytest.mark.parametrize("model", MODELS)
def test_the_codes_and_reconstructions_are_those_of_the_model(model: str, trained: dict[str, vs.Run]) -> None:
    run, data = trained[model], data_of(model)
    codes = run.encode()
    assert torch.equal(codes.mean, vs.encode(run.model, data).mean)
    assert torch.equal(codes.mean, vs.encode(run, data).mean)
    assert torch.equal(codes.sample, run.encode(data).sample)
    found = run.reconstruct(data)
    assert found.shape == GREY.shape
    torch.testing.assert_close(found, vs.encoding.reconstruct(run, data))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "image",
    [
        GREY[7],
        GREY[7, 0],
        GREY[7].transpose(1, 2, 0),
        GREY[7:8],
        GREY[7] / 255,
        torch.from_numpy(GREY[7, 0]).double() / 255,
    ],
    ids=["image", "no channels", "channels last", "batch of one", "floats", "tensor"],
)
def test_one_image_has_the_codes_that_it_has_in_the_data(model: str, image: Any, trained: dict[str, vs.Run]) -> None:
    run, given = trained[model], condition_of(model, 7)
    torch.testing.assert_close(run.encode(image, **given).mean, run.encode().mean[7:8])
    torch.testing.assert_close(run.reconstruct(image, **given), run.reconstruct(data_of(model))[7:8])


@pytest.mark.parametrize("level", [0, 255, 0.0, 1.0])
def test_a_blank_image_is_encoded(level: Any, trained: dict[str, vs.Run]) -> None:
    run = trained["vae"]
    blank = np.full((12, 10), level)
    expected = run.model.encode(torch.full((1, 1, 12, 10), float(level > 0))).mean.detach()
    torch.testing.assert_close(run.encode(blank).mean, expected)


def test_one_vector_is_encoded_and_reconstructed(trained: dict[str, vs.Run]) -> None:
    run = trained["vectors"]
    for row in (ROWS[3], ROWS[3].tolist(), np.zeros(5), torch.from_numpy(ROWS[3])):
        assert run.encode(row).mean.shape == (1, 2)
        assert run.reconstruct(row).shape == (1, 5)
    torch.testing.assert_close(run.encode(ROWS[3]).mean, run.encode().mean[3:4])


@pytest.mark.parametrize("wrong", [(32, 32), (4, 1, 14, 10), (4, 3, 12, 10), (120,), (4, 5)])
def test_items_of_another_shape_are_refused(wrong: tuple[int, ...], trained: dict[str, vs.Run]) -> None:
    run, x = trained["vae"], RANDOM.random(wrong)
    calls = (run.encode, run.reconstruct, run.traverse, lambda x: run.interpolate(x, GREY[0]))
    for call in (*calls, lambda x: vs.encode(run, x), lambda x: vs.encode(run.model, x)):
        with pytest.raises(DataError, match=r"shape \(1, 12, 10\).*got"):
            call(x)
    with pytest.raises(DataError, match=r"\(1, 12, 10\), got"):
        run.module(torch.as_tensor(x, dtype=torch.float32))


@pytest.mark.parametrize("model", ["vae", "vgon", "conditional", "identifiable"])
def test_samples_are_items(model: str, trained: dict[str, vs.Run]) -> None:
    run, given = trained[model], condition_of(model, 5)
    found = run.sample(6, seed=1, **given)
    assert found.shape == (6, 1, 12, 10)
    assert bool(((found >= 0) & (found <= 1)).all())
    torch.testing.assert_close(run.sample(3, seed=1, **given), found[:3])
    assert not torch.allclose(run.sample(6, seed=2, **given), found)


@torch.no_grad()
def test_samples_have_the_requested_labels(trained: dict[str, vs.Run]) -> None:
    run = trained["conditional"]
    each = run.sample(3, labels=[2, 0, 2])
    torch.testing.assert_close(each[[0, 2]], run.sample(3, labels=2)[[0, 2]])
    torch.testing.assert_close(each[1], run.sample(3, labels=0)[1])
    assert not torch.allclose(each[1], run.sample(3, labels=2)[1])


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        ("autoencoder", {}, "prior"),
        ("conditional", {}, "Pass labels"),
        ("identifiable", {}, "Pass factors"),
        ("conditional", {"labels": 3}, "at most 3 classes"),
        ("conditional", {"labels": [0, 1]}, "each of the 4 items"),
        ("conditional", {"factors": [0, 1]}, "conditioned on label, got factors"),
        ("vae", {"labels": 1}, "conditioned on nothing, got labels"),
        ("identifiable", {"factors": [3, 0]}, r"factor 0 0\.\.2"),
    ],
)
def test_runs_that_cannot_be_sampled_are_an_error(
    model: str, given: Any, words: str, trained: dict[str, vs.Run]
) -> None:
    with pytest.raises((ConfigurationError, DataError), match=words):
        trained[model].sample(4, **given)


@pytest.mark.parametrize("model", MODELS)
def test_an_interpolation_goes_from_one_item_to_the_other(model: str, trained: dict[str, vs.Run]) -> None:
    run = trained[model]
    one, other = condition_of(model, 4), condition_of(model, 9)
    both = {name: np.stack([one[name], other[name]]) for name in one}
    line = run.interpolate(GREY[4], GREY[9, 0], steps=5, **both)
    torch.testing.assert_close(line[0], run.reconstruct(GREY[4], **one)[0])
    torch.testing.assert_close(line[-1], run.reconstruct(GREY[9], **other)[0])
    assert run.interpolate(GREY[4], GREY[4], **one).shape == (9, 1, 12, 10)


def test_an_interpolation_has_one_item_at_each_end(trained: dict[str, vs.Run]) -> None:
    with pytest.raises(DataError, match=r"^b must be one item .*got 60"):
        trained["vae"].interpolate(GREY[0], GREY)
    with pytest.raises(DataError, match=r"^labels must be one row .*two"):
        trained["conditional"].interpolate(GREY[0], GREY[1], labels=[0, 1, 2])


@torch.no_grad()
@pytest.mark.parametrize("model", MODELS)
def test_a_traversal_starts_from_an_item(model: str, trained: dict[str, vs.Run]) -> None:
    run, data = trained[model], data_of(model)
    found = run.traverse(example=7, latents=[2, 0])
    assert found.latents == (2, 0)
    assert found.example == 7
    expected = vs.encoding.traversals(run, data, run.encode(), example=7, latents=[2, 0])
    one = run.traverse(GREY[7], latents=[2, 0], **condition_of(model, 7))
    for kind in ("wide", "usual"):
        for got, image, wanted in zip(getattr(found, kind), getattr(one, kind), getattr(expected, kind), strict=True):
            assert got.values == wanted.values
            torch.testing.assert_close(got.items, wanted.items)
            torch.testing.assert_close(image.items, wanted.items)


def test_a_missing_example_is_an_error(trained: dict[str, vs.Run]) -> None:
    with pytest.raises(ConfigurationError, match=r"^example .*0 to 59, got 60"):
        trained["vae"].traverse(example=60)


def test_labels_without_items_are_refused(trained: dict[str, vs.Run]) -> None:
    with pytest.raises(ConfigurationError, match="Pass x"):
        trained["conditional"].encode(labels=1)


def condition_rows(model: str) -> tuple[Tensor, ...]:
    if model == "conditional":
        return (torch.from_numpy(LABELS),)
    return (torch.from_numpy(FACTORS / [2, 3]),) if model == "identifiable" else ()


@pytest.mark.parametrize("model", MODELS)
def test_the_module_reconstructs(model: str, trained: dict[str, vs.Run]) -> None:
    run, given = trained[model], condition_rows(model)
    module = run.module
    assert isinstance(module, nn.Module)
    assert not any(part.training for part in module.modules())
    assert {value.device.type for value in module.state_dict().values()} == {"cpu"}
    expected = run.reconstruct(data_of(model))
    for x in (torch.from_numpy(GREY), torch.from_numpy(GREY / 255), torch.from_numpy(GREY.astype(np.int64))):
        torch.testing.assert_close(module(x, *given).detach(), expected)


def test_the_module_is_a_copy_that_can_be_trained_and_saved(tmp_path: Path, trained: dict[str, vs.Run]) -> None:
    run = trained["vae"]
    before, module = copy.deepcopy(run.model.state_dict()), run.module
    x = torch.rand(5, 1, 12, 10)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    loss = (module(x) - x).square().sum()
    loss.backward()
    optimiser.step()
    assert (module(x) - x).square().sum() < loss
    assert all(torch.equal(value, before[name]) for name, value in run.model.state_dict().items())
    assert run.module is module
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    assert vs.Run.open(run.path).module.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))


def test_the_module_takes_class_numbers_of_its_classes(trained: dict[str, vs.Run]) -> None:
    module, x = trained["conditional"].module, torch.rand(2, 1, 12, 10)
    rows = nn.functional.one_hot(torch.tensor([2, 0]), CLASSES)
    torch.testing.assert_close(module(x, torch.tensor([2, 0])), module(x, rows))
    for wrong in (torch.tensor([0, 3]), torch.tensor([-1, 0]), torch.tensor([0.0, 1.0])):
        with pytest.raises(DataError, match="from 0 to 2"):
            module(x, wrong)
    with pytest.raises(DataError, match="none"):
        module(x)


def test_the_module_takes_tensors(trained: dict[str, vs.Run]) -> None:
    with pytest.raises(DataError, match=r"x must be a tensor, got ndarray.*as_tensor"):
        trained["vae"].module(GREY)


@pytest.mark.parametrize("model", ["vae", "vgon", "identifiable"])
def test_the_generator_of_torch_is_neither_used_nor_changed(model: str, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    run = vs.fit(data_of(model), LATENTS, model=model, runs=tmp_path, **TINY)
    opened = vs.load(run.path)
    opened.encode(data_of(model))
    if model != "vgon":
        vs.prune(run, data_of(model), keep=[0, 1])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_example_of_the_page_about_runs_works(trained: dict[str, vs.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained["vae"]
    section = PAGE.read_text(encoding="utf-8").partition("## Use a trained run")[2]
    block = section.partition("```python\n")[2].partition("```")[0].replace("3f2a", run.id)
    monkeypatch.chdir(run.path.parent.parent)
    run.path.parent.rename("runs")
    try:
        names = {"vs": vs, "image": GREY[0], "other": GREY[1], "images": GREY}
        exec(block, names)
    finally:
        Path("runs").rename(run.path.parent)
    assert isinstance(names["module"], torch.nn.Module)


def test_a_run_without_a_model_is_an_error_with_the_reason(tmp_path: Path) -> None:
    path = vs.fit(ROWS, 2, runs=tmp_path, **TINY).path
    (path / "model.safetensors").unlink()
    uses = (vs.Run.sample, lambda run: run.encode(ROWS), lambda run: run.module, lambda run: vs.encode(run, ROWS))
    for use in uses:
        with pytest.raises(RunError, match=r"model\.safetensors"):
            use(vs.Run.open(path))


OTHER_PROCESS = """
import sys
import numpy as np
import vaescope as vs

run = vs.load(sys.argv[1][:5], runs=sys.argv[2])
rows = np.load(sys.argv[3])
for call in (lambda: vs.diagnose(run), lambda: run.encode(), lambda: vs.prune(run), lambda: run.traverse(rows[0])):
    try:
        call()
    except vs.VaescopeError as error:
        print(str(error))
assert run.encode(rows[0]).mean.shape == (1, 2)
assert run.sample(2).shape == (2, 5)
assert len(run.traverse(rows).wide) == 2
print(vs.diagnose(run, rows).name)
print(vs.diagnose(run).name)  # passed once, known from then on
"""


def test_in_another_process_one_sentence_says_to_pass_the_data(tmp_path: Path) -> None:
    run = vs.fit(ROWS, 2, runs=tmp_path / "runs", **TINY)
    np.save(tmp_path / "rows.npy", ROWS)
    words = [sys.executable, "-c", OTHER_PROCESS, run.id, str(tmp_path / "runs"), str(tmp_path / "rows.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *refusals, one, again = done.stdout.splitlines()
    assert (one, again) == (run.id, run.id)
    assert len(refusals) == 4
    for line in refusals:
        assert "memory" in line
        assert "Pass data" in line
