"""Open the runs of a folder, encode the data with each, and look at the variance of every latent.

A latent whose posterior variance is near 0 carries information (active); one near 1 equals the prior (passive).
"""

import sys
from pathlib import Path

import vaescope as vs

for run in vs.Store(Path(sys.argv[1] if len(sys.argv) > 1 else "runs")).runs():
    codes = vs.encode(run.model, run.configuration.data["name"])
    variances = ", ".join(f"{value:.2f}" for value in codes.variance.mean(0).sort().values)
    print(f"{run.id}: {codes.latents} latents, {len(codes)} codes, mean variance of each latent: {variances}")
