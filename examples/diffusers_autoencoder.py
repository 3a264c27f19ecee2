"""Are all latent channels of an AutoencoderKL of diffusers in use? Channels are the latents, positions the examples."""

import torch
from diffusers import AutoencoderKL

import vaescope as vs

torch.manual_seed(0)
images = vs.open_dataset("digits").batch(torch.arange(1797))
model = AutoencoderKL(
    in_channels=1,
    out_channels=1,
    block_out_channels=(8, 16),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4,
    norm_num_groups=4,
    sample_size=8,
)
optimiser = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(150):
    x = images[torch.randint(len(images), (32,))]
    posterior = model.encode(x).latent_dist
    distortion = (model.decode(posterior.sample()).sample - x).square().sum((1, 2, 3)) / 0.02
    loss = (distortion + posterior.kl()).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

found = vs.diagnose(model, images[:300])
print(found.summary())
for row in found.rows():
    print(f"channel {row['latent']}: {row['type']:<7} {row['kl']:.2f} nats per position")
codes = vs.encode(model, images[:300])
print("nats at each position:")
for row in vs.regime.rate_by_position(codes).sum(0):
    print(*(f"{rate:.2f}" for rate in row))

every_number = vs.wrap(model, latents="flat")
print("all numbers as latents:", vs.diagnose(every_number, images[:300]).summary())
