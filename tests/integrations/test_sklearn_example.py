"""The example with scikit-learn runs as it is, and the codes of the VAE are as good as those of PCA."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "sklearn_pipeline.py"


def test_the_example_compares_a_vae_with_pca(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "300"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: [float(number) for number in line.split()[1:]] for line in lines[2:4]}
    (accuracy, explained), (pca_accuracy, pca_explained) = rows["VAETransformer"], rows["PCA"]
    assert accuracy > pca_accuracy - 0.03 > 0.8
    assert explained > pca_explained
    assert "of 10 latents are active" in lines[-1]
    assert list(tmp_path.iterdir()) == []
