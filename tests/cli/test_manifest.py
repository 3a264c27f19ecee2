"""The manifest of variants: written from the registries, up to date; a broken one can be regenerated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vaescope.cli import manifest, variants


@pytest.fixture(scope="module")
def built() -> manifest.Manifest:
    return manifest.build()


def test_the_manifest_and_the_documents_are_up_to_date(built: manifest.Manifest) -> None:
    assert manifest.stale(built, write=False) == []


def test_a_variant_has_its_summary_source_and_options(built: manifest.Manifest) -> None:
    beta = built["objective"]["variants"]["beta"]
    assert beta["source"] == "Bonheme, eq. 4.25"
    assert beta["options"] == {"beta": 1.0, "warm_up": 0.0, "free_bits": 0.0}
    assert built["model"]["variants"]["vgon"]["options"] == {
        "inner_beta": 1.0,
        "origin": None,
        "scale": 0.125,
        "inner_steps": 1,
    }
    assert "dsprites" in built["data"]["variants"]


def test_a_stale_file_is_named_and_written(
    built: manifest.Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "manifest.json", tmp_path / "page.md"
    page.write_text("before\n<!-- parts: net -->\nold\n<!-- end of parts -->\nafter\n")
    monkeypatch.setattr(manifest, "MANIFEST_FILE", file)
    monkeypatch.setattr(manifest, "DOCUMENTS", (page,))
    monkeypatch.setattr(manifest, "build", lambda: built)
    assert manifest.main(["--check"]) == 1
    assert str(page) in capsys.readouterr().out
    assert not file.exists()
    assert manifest.main([]) == 0
    assert json.loads(file.read_text())["net"]["group"] == "vaescope.nets"
    assert "| net | `conv` |" in page.read_text()
    assert page.read_text().endswith("<!-- end of parts -->\nafter\n")
    assert manifest.main(["--check"]) == 0


def test_a_wrong_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert manifest.main(["--chekc"]) == 2
    assert "--chekc" in capsys.readouterr().err


def test_a_broken_manifest_does_not_stop_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "manifest.json"
    broken.write_text("<<<<<<< HEAD")
    monkeypatch.setattr(variants, "MANIFEST_FILE", broken)
    variants._manifest.cache_clear()
    assert variants.variants("net") == ()
    assert variants.listing()
    variants._manifest.cache_clear()
