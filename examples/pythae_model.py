"""Which latents does a model of pythae use? The codes come from its encoder, without a function of one's own."""

import torch
from pythae.data.datasets import DatasetOutput
from pythae.models import BetaVAE, BetaVAEConfig

import vaescope as vs

torch.manual_seed(0)
images = vs.open_dataset("digits").batch(torch.arange(1797))
models = {}
for beta in (0.1, 2.0):
    model = BetaVAE(BetaVAEConfig(input_dim=(1, 8, 8), latent_dim=10, beta=beta, reconstruction_loss="bce"))
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(300):
        loss = model(DatasetOutput(data=images[torch.randint(len(images), (64,))])).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    models[f"beta {beta:g}"] = model

wrapped = vs.wrap(models["beta 2"], name="beta 2")
print(vs.diagnose(wrapped, images).summary())
print(wrapped.summary())  # what was recognised

found = vs.compare(models, images)
print(found.summary())
for row in found.rows():
    types = ", ".join(f"{row[kind]} {kind}" for kind in ("active", "mixed", "passive"))
    print(f"{row['name']}: {types}, {row['rate']:.1f} nats")
