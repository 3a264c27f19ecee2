"""Frames in a report against ONNX in a page: size, seconds to build, and milliseconds to open and to move a slider.

Both pages show the decoder of a convolutional VAE with batch normalisation on colour images, which vaescope did not
build. The ONNX page needs the folder `dist` of onnxruntime-web (`npm install --no-save onnxruntime-web`). Chromium
opens both from disk, without a network. The ONNX page is also opened under the security policy of the report.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import torch
from recorded import add_json, save
from torch import Tensor, nn

import vaescope as vs
from vaescope.reporting.page import POLICY

SIDE, LATENTS, ITEMS, MOVES = 64, 10, 500, 40
FRAMES_MOVES = """async (count) => {
  const slider = document.querySelector('#frames input');
  const times = [];
  for (let number = 0; number < count; number += 1) {
    const before = performance.now(), painted = vaescope.frames.painted;
    slider.value = number % 20;
    slider.dispatchEvent(new Event('input'));
    while (vaescope.frames.painted === painted) await Promise.resolve();
    times.push(performance.now() - before);
  }
  return times;
}"""
ONNX_PAGE = """<!DOCTYPE html><meta charset="utf-8">{policy}<script>{runtime}</script>
<script type="text/plain" id="glue">{glue}</script><script type="text/plain" id="wasm">{wasm}</script>
<script type="text/plain" id="model">{model}</script><script>
const text = (id) => atob(document.getElementById(id).textContent);
const bytes = (id) => Uint8Array.from(text(id), (letter) => letter.charCodeAt(0));
async function start() {{
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = bytes('wasm').buffer;
  ort.env.wasm.wasmPaths = {{mjs: URL.createObjectURL(new Blob([bytes('glue')], {{type: 'text/javascript'}}))}};
  window.session = await ort.InferenceSession.create(bytes('model'));
  await decode(0);
  return performance.now();
}}
async function decode(value) {{
  const before = performance.now();
  const z = new ort.Tensor('float32', new Float32Array({latents}).fill(value), [1, {latents}]);
  window.decoded = (await window.session.run({{z}})).x.data;
  return performance.now() - before;
}}
window.started = start().catch((error) => `failed: ${{error}}`);
</script>"""


class Convolutional(nn.Module):
    """A VAE as people write it, with half a million weights in its decoder."""

    def __init__(self) -> None:
        super().__init__()
        down = [(3, 32), (32, 64), (64, 128), (128, 128)]
        self.encoder = nn.Sequential(
            *[part for i, o in down for part in (nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU())],
            nn.Flatten(),
            nn.Linear(128 * 16, 2 * LATENTS),
        )
        up = [(128, 128), (128, 64), (64, 32)]
        self.decoder = nn.Sequential(
            nn.Linear(LATENTS, 128 * 16),
            nn.Unflatten(1, (128, 4, 4)),
            *[part for i, o in up for part in (nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU())],
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        found: Tensor = self.decoder(z)
        return found


def trained(x: Tensor, steps: int) -> Convolutional:
    torch.manual_seed(0)
    model = Convolutional()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,))]
        mean, log_variance = model.encode(batch)
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1)
        loss = (10 * (model.decode(z) - batch).square().sum((1, 2, 3)) + kl).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def onnx_page(model: Convolutional, runtime: Path, file: Path, policy: str = "") -> None:
    """Write a page that holds the runtime, its WebAssembly and the decoder; `policy` says what it may load."""
    written = io.BytesIO()
    torch.onnx.export(
        model.decoder, (torch.zeros(1, LATENTS),), written, input_names=["z"], output_names=["x"], dynamo=False
    )

    def encoded(name: str) -> str:
        return base64.b64encode((runtime / name).read_bytes()).decode("ascii")

    text = ONNX_PAGE.format(
        policy=policy,
        runtime=(runtime / "ort.wasm.min.js").read_text(encoding="utf-8"),
        glue=encoded("ort-wasm-simd-threaded.mjs"),
        wasm=encoded("ort-wasm-simd-threaded.wasm"),
        model=base64.b64encode(written.getvalue()).decode("ascii"),
        latents=LATENTS,
    )
    file.write_text(text, encoding="utf-8")


def in_browser(file: Path, onnx: bool, model: Convolutional) -> dict[str, Any]:
    """Milliseconds until the first picture, and for one move (the mean); whether the page stayed offline."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        context = browser.new_context(offline=True)
        page, problems = context.new_page(), []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(file.as_uri())
        if onnx:
            ready = page.evaluate("() => window.started")
            if isinstance(ready, str):
                return {"works_offline_from_disk": False, "reason": ready}
            moves = [page.evaluate("(value) => decode(value)", number / 20) for number in range(MOVES)]
            page.evaluate("() => decode(0.5)")
            found = torch.tensor(page.evaluate("() => [...window.decoded]"))
            with torch.no_grad():
                error = float((model.decode(torch.full((1, LATENTS), 0.5)).flatten() - found).abs().max())
        else:
            page.wait_for_function("() => vaescope.frames.painted > 0")
            ready = page.evaluate("() => performance.now()")
            moves, error = page.evaluate(FRAMES_MOVES, MOVES), 0.5 / 255
        browser.close()
    return {
        "works_offline_from_disk": not problems,
        "ready_ms": round(ready),
        "move_ms": round(statistics.mean(moves), 2),
        "largest_difference": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, help="the folder dist of onnxruntime-web; default: frames only")
    parser.add_argument("--steps", type=int, default=150)
    add_json(parser)
    options = parser.parse_args()
    images = vs.open_dataset("dsprites-small").batch(
        torch.arange(0, 64 * ITEMS, 64) % len(vs.open_dataset("dsprites-small"))
    )
    tint = torch.rand(len(images), 3, 1, 1, generator=torch.Generator().manual_seed(0))
    x = images.expand(-1, 3, SIDE, SIDE) * tint
    model = trained(x, options.steps)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.html"
        began = time.perf_counter()
        vs.report(model, file, x, progress=False)
        seconds = time.perf_counter() - began
        text = file.read_text(encoding="utf-8")
        start = text.index('id="frames-data"')
        data = text[text.index(">", start) + 1 : text.index("</script>", start)]
        frames, examples = len(data), len(json.loads(data)["strips"])
        results["frames"] = {
            "megabytes_added": round(frames / 1e6, 3),
            "examples": examples,
            "page_megabytes": round(len(text) / 1e6, 2),
            "report_seconds": round(seconds, 1),
            **in_browser(file, False, model),
        }
        if options.runtime is not None:
            file = Path(folder) / "onnx.html"
            onnx_page(model, options.runtime, file)
            size = round(file.stat().st_size / 1e6, 3)
            results["onnx"] = {"megabytes_added": size, **in_browser(file, True, model)}
            policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            onnx_page(model, options.runtime, file, policy)
            results["onnx_under_the_policy_of_reports"] = in_browser(file, True, model)
    rows = [{"page": name.replace("_", " "), **row} for name, row in results.items()]
    print(*rows, sep="\n")
    save(options, __file__, "Decoders that a report cannot run: frames or ONNX", {"pages": rows})


if __name__ == "__main__":
    main()
