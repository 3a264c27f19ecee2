"""FONDUE on simulated counts of known dimension: the answer by default and by a quick recipe, for several seeds."""

from __future__ import annotations

import argparse
import time

import torch
from recorded import add_json, save

import vaescope as vs

RECIPES = {
    "default": {},
    "quick": {
        "net": {"name": "mlp", "encoder_widths": [128, 128], "decoder_widths": [128, 128]},
        "learning_rate": 3e-3,
        "batch": 64,
        "period": 500,
    },
}


def measured(recipe: str, dimension: int, seed: int) -> dict[str, object]:
    """The answer for cells and models of one seed."""
    data = vs.open_dataset("synthetic-counts", dimension=dimension, seed=seed)
    began = time.process_time()
    found = vs.fondue(data, seeds=[seed], runs=None, device="cpu", progress=False, **RECIPES[recipe])
    gaps = {str(probe.value): round(probe.gap, 3) for probe in found.probes}
    return {
        "recipe": recipe,
        "dimension": dimension,
        "seed": seed,
        "latents": found.latents,
        "intrinsic dimension": None if found.dimension is None else round(found.dimension, 2),
        "gaps": {latents: gap for latents, gap in gaps.items() if abs(int(latents) - dimension) <= 2},
        "processor seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[4, 8])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for recipe in options.recipes:
        for dimension in options.dimensions:
            for seed in options.seeds:
                rows.append(measured(recipe, dimension, seed))
                print(rows[-1], flush=True)
    answers = [{name: value for name, value in row.items() if name != "gaps"} for row in rows]
    notes = ["The recipes are those of docs/counts.md. The raw output has the gaps around each answer."]
    title = "Number of latents of simulated counts of known dimension"
    save(options, __file__, title, {"answers": answers}, notes=notes, raw=rows)


if __name__ == "__main__":
    main()
