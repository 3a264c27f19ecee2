"""How many latents does a model of scvi-tools use? The cells come from the model's own AnnData, batches included."""

import anndata
import numpy as np
import pandas as pd
import scvi

import vaescope as vs

scvi.settings.seed = 0
rng = np.random.default_rng(0)
# Cells that differ in three directions, in two batches: what `n_latent=10` should find.
logits = 0.5 * rng.normal(size=(600, 3)) @ rng.normal(size=(3, 50))
shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
counts = rng.poisson(1000 * shares).astype(np.float32)
batches = pd.DataFrame({"batch": rng.choice(["a", "b"], 600)}, index=[f"cell {number}" for number in range(600)])
cells = anndata.AnnData(counts, obs=batches)

scvi.model.SCVI.setup_anndata(cells, batch_key="batch")
model = scvi.model.SCVI(cells, n_latent=10, n_hidden=32)
model.train(
    max_epochs=60,
    accelerator="cpu",
    plan_kwargs={"lr": 1e-2, "n_epochs_kl_warmup": 10},
    logger=False,
    enable_progress_bar=False,
)

found = vs.diagnose(model)  # or diagnose(model, other_cells)
print(found.summary())
for row in found.rows():
    print(f"latent {row['latent']}: {row['type']:<7} {row['kl']:.2f} nats")

wrapped = vs.wrap(model)
codes = vs.encode(wrapped)  # codes.mean, codes.variance: cells x latents
print(wrapped.summary())
decoded = vs.encoding.decode(wrapped, codes.mean[:5])  # the expected counts of each gene
print("counts of five cells:", counts[:5].sum(1), "decoded to:", decoded.sum(1))
