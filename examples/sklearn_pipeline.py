"""Ten numbers for a digit: PCA and a VAE in the same pipeline, compared by what a linear classifier makes of them."""

import sys

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vaescope as vs

latents, steps = 10, int(sys.argv[1]) if len(sys.argv) > 1 else 1000
pixels, digits = load_digits(return_X_y=True)
known, new, known_digits, new_digits = train_test_split(pixels, digits, random_state=0, stratify=digits)
vae = vs.VAETransformer(latents, learning_rate=1e-3, steps=steps, random_state=0)

print(f"{pixels.shape[1]} pixels -> {latents} numbers -> {len(set(digits))} digits, on {len(new)} new images")
print(f"{'codes':<16}{'accuracy':>10}{'variance explained':>20}")
for reduction in (PCA(latents, random_state=0), vae):
    pipeline = make_pipeline(StandardScaler(), reduction, LogisticRegression(max_iter=2000)).fit(known, known_digits)
    encoder = pipeline[:-1]
    explained = r2_score(new, encoder.inverse_transform(encoder.transform(new)), multioutput="variance_weighted")
    print(f"{type(reduction).__name__:<16}{pipeline.score(new, new_digits):>10.3f}{explained:>20.3f}")

scaled = pipeline[0].transform(new)
print(f"mean evidence lower bound of the VAE: {vae.score(scaled):.1f} nats per image")
print(vs.diagnose(vae.model_, scaled).summary())
