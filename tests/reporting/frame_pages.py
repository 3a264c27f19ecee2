"""Moves of sliders on pages with frames, and what is drawn then."""

from __future__ import annotations

from typing import Any

import numpy as np

FRAME_DATA = "() => JSON.parse(document.getElementById('frames-data').textContent)"
# As text: the driver of the browser takes seconds to check a list of a million numbers.
PAINTED = (
    "() => { const c = document.querySelector('canvas.decoded');"
    " return [c.height, c.width, c.getContext('2d').getImageData(0, 0, c.width, c.height).data.join()] }"
)
MOVE = (
    "([latent, place]) => { const s = document.getElementById(`latent-${latent}`); s.value = place;"
    " s.dispatchEvent(new Event('input')) }"
)


def after(page: Any, action: Any) -> None:
    """Do something, and wait until it is drawn."""
    before = page.evaluate("() => vaescope.frames.painted")
    action()
    page.wait_for_function(f"() => vaescope.frames.painted > {before}")


def move(page: Any, latent: int, place: int) -> None:
    after(page, lambda: page.evaluate(MOVE, [latent, place]))


def drawn(page: Any, channels: int = 1) -> np.ndarray:
    """The canvas, channels x height x width."""
    page.wait_for_function("() => vaescope.frames.painted > 0")
    height, width, levels = page.evaluate(PAINTED)
    table = np.array(levels.split(","), dtype=int).reshape(height, width, 4)
    assert (table[..., 3] == 255).all()
    return np.moveaxis(table[..., :channels], -1, 0)
