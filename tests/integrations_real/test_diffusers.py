"""Autoencoders of diffusers: channels are the latents unless all numbers are requested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from browser import chromium, opened
from by_hand import Untouched, assert_same_types, expected, half_trained, in_batches, use_everything
from diffusers import AutoencoderKL, AutoencoderTiny, VQModel
from frame_pages import FRAME_DATA, drawn, move
from torch import Tensor, nn

import vaescope as vs
from vaescope.reporting.reconstructions import TOLERANCE

CHANNELS, SIDE = 4, 4  # of the latents of an image of 8 x 8
SHAPE = {
    "in_channels": 1,
    "out_channels": 1,
    "block_out_channels": (8, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "latent_channels": CHANNELS,
    "norm_num_groups": 4,
    "sample_size": 8,
}


def made() -> AutoencoderKL:
    return AutoencoderKL(**SHAPE)


@pytest.fixture(scope="module")
def trained(digits: Tensor) -> AutoencoderKL:
    """An autoencoder that uses some of its channels; for images in [0, 1], as the data are."""
    torch.manual_seed(0)
    model = made()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        x = digits[torch.randint(len(digits), (32,))]
        posterior = model.encode(x).latent_dist
        distortion = (model.decode(posterior.sample()).sample - x).square().sum((1, 2, 3)) / 0.05
        loss = (0.5 * distortion + posterior.kl()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    optimiser.zero_grad()
    return model


def codes(model: AutoencoderKL, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance, items x channels x height x width."""

    def encode(batch: Tensor) -> tuple[Tensor, Tensor]:
        posterior = model.encode(batch).latent_dist
        return posterior.mean, posterior.var

    mean, variance = in_batches(encode, x)
    return mean.double(), variance.double()


def found_limits(model: AutoencoderKL, means: Tensor) -> tuple[float, float]:
    """The values that the report draws black and white: those of 8 reconstructions, and 0 and 1."""
    with torch.no_grad():
        decoded = model.decode(means.float()).sample
    low, high = min(0.0, float(decoded.min())), max(1.0, float(decoded.max()))
    return (low, high) if low < -TOLERANCE or high > 1 + TOLERANCE else (0.0, 1.0)


def levels(image: Tensor, limits: tuple[float, float]) -> np.ndarray:
    """The bytes, unrounded."""
    low, high = limits
    found: np.ndarray = ((image - low) / (high - low)).clamp(0, 1).numpy() * 255
    return found


def by_channel(codes: Tensor) -> Tensor:
    """Positions become examples."""
    return codes.movedim(1, -1).flatten(0, -2)


def test_channels_are_the_latents(trained: AutoencoderKL, digits: Tensor) -> None:
    found = vs.diagnose(trained, digits)
    assert_same_types(found.types, expected(*map(by_channel, codes(trained, digits))))
    assert len(found.types.types) == CHANNELS
    assert found.types.statistics.count == len(digits) * SIDE * SIDE
    assert len(set(found.types.types)) > 1


def test_the_report_of_an_autoencoder_has_working_sliders(
    trained: AutoencoderKL, digits: Tensor, tmp_path: Path, untouched: Untouched
) -> None:
    with untouched(trained):
        path = vs.report(trained, tmp_path / "report.html", digits)
    means, _ = codes(trained, digits)
    # The page begins with the item that is reconstructed best.
    found = vs.diagnose(trained, digits).reconstruction
    assert found is not None
    shown = [row["item"] for row in found.rows()]
    with chromium() as browser, opened(browser, path) as page:
        assert f"{SIDE} x {SIDE} positions" in page.locator("#frames").locator("..").inner_text()
        (strips, *_) = page.evaluate(FRAME_DATA)["strips"]
        first = drawn(page)
        for name, strip in strips.items():
            move(page, int(name), 2)
            code = means[shown[:1]].clone()
            code[0, int(name)] += strip["values"][2] - code[0, int(name)].mean()
            with torch.no_grad():
                wanted = trained.decode(code.float()).sample[0]
            limits = found_limits(trained, means[shown])
            assert np.abs(drawn(page) - levels(wanted, limits)).max() < 1
            assert not np.array_equal(drawn(page), first)


def test_an_autoencoder_is_pruned_and_exported(
    trained: AutoencoderKL, digits: Tensor, tmp_path: Path, untouched: Untouched
) -> None:
    x = digits[:70]  # from 64 images on, diffusers computes in another way
    with untouched(trained):
        pruned = vs.prune(trained, x)
        exported = vs.export(pruned.model, tmp_path, data=x)
    assert 0 < len(pruned.kept) < CHANNELS
    assert max(file.max_difference for file in exported.files) < 1e-5
    mean, _ = codes(trained, x)
    for channel in pruned.dropped:
        mean[:, channel] = mean[:, channel].mean()
    with torch.no_grad():
        wanted = trained.decode(mean.float()).sample
    found = vs.encoding.reconstruct(pruned.model, x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    encoder, decoder = (onnxruntime.InferenceSession(file.path) for file in exported.files)
    (items,) = decoder.run(None, {"z": encoder.run(["mean"], {"x": x.numpy()})[0]})
    torch.testing.assert_close(torch.from_numpy(items), found, rtol=0, atol=1e-5)


def test_what_encode_returned_is_diagnosed_without_the_model(trained: AutoencoderKL, digits: Tensor) -> None:
    trained.eval()
    with torch.no_grad():
        output = trained.encode(digits[:200])
    wanted = vs.diagnose(trained, digits[:200]).types
    for returned in (output, output.latent_dist, (output.latent_dist.mean, output.latent_dist.var)):
        found = vs.diagnose(returned).types
        assert found.types == wanted.types
        assert found.statistics.count == 200 * SIDE * SIDE


def test_all_numbers_can_be_the_latents(trained: AutoencoderKL, digits: Tensor) -> None:
    found = vs.diagnose(vs.wrap(trained, latents="flat"), digits)
    assert_same_types(found.types, expected(*(part.flatten(1) for part in codes(trained, digits))))
    assert len(found.types.types) == CHANNELS * SIDE * SIDE


@pytest.mark.parametrize("latents", ["channels", "flat"])
def test_a_model_in_training_is_left_as_it_was(
    latents: str, digits: Tensor, tmp_path: Path, untouched: Untouched
) -> None:
    model = half_trained(made())
    with untouched(model):
        use_everything(vs.wrap(model, latents=latents), digits[:50], tmp_path)


def test_images_in_another_range_are_scaled_by_functions(trained: AutoencoderKL, digits: Tensor) -> None:
    wrapped = vs.wrap(
        trained,
        encode=lambda x: trained.encode(2 * x - 1).latent_dist,
        decode=lambda z: (trained.decode(z).sample + 1) / 2,
    )
    scaled = codes(trained, 2 * digits - 1)
    assert_same_types(vs.diagnose(wrapped, digits).types, expected(*map(by_channel, scaled)))
    with torch.no_grad():
        wanted = (trained.decode(scaled[0][:3].float()).sample + 1) / 2
    torch.testing.assert_close(wrapped.decode(wrapped.encode(digits[:3]).mean).mean, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_encoded_in_half_precision(
    precision: torch.dtype, digits: Tensor, untouched: Untouched
) -> None:
    model = made().to(precision).eval()
    x = digits[:100]
    with untouched(model):
        found = vs.diagnose(model, x)
    mean, variance = codes(model, x.to(precision))
    assert_same_types(found.types, expected(by_channel(mean), by_channel(variance)))


def test_a_vector_quantised_model_is_refused_with_the_reason(digits: Tensor) -> None:
    model = VQModel(**SHAPE, num_vq_embeddings=16)
    with pytest.raises(vs.VaescopeError, match=r"VQModel.*quanti") as caught:
        vs.diagnose(model, digits)
    assert "\n" not in str(caught.value)


def test_an_autoencoder_without_variances_asks_for_a_function(digits: Tensor) -> None:
    model: nn.Module = AutoencoderTiny(
        in_channels=1,
        out_channels=1,
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    )
    with pytest.raises(vs.VaescopeError, match=r"AutoencoderTiny.*encode=") as caught:
        vs.encode(model, digits)
    assert "\n" not in str(caught.value)
    found = vs.encode(vs.wrap(model, encode=lambda x: {"mean": model.encode(x).latents}), digits)
    assert found.latents == model.config.latent_channels
    assert not found.variance.any()
