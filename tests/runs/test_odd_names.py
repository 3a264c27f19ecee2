"""A run on a file whose name is not valid UTF-8: listed, queried, exported, and shown in a report."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from vaescope.reporting import report
from vaescope.runs import fit
from vaescope.runs.queries import query
from vaescope.runs.rows import read_rows
from vaescope.tables import csv_text

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def test_a_run_on_a_file_whose_name_is_not_utf8_is_shown_everywhere(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.npy")
    np.save(path, np.random.default_rng(0).normal(size=(60, 4)))
    run = fit(path, 2, steps=4, batch=8, net=NET, runs=tmp_path / "runs", device="cpu")
    assert run.provenance.source == path
    (row,) = read_rows(tmp_path / "runs").rows.values()
    assert str(row["data"]).endswith(r"caf\udce9.npy")
    assert r"caf\udce9.npy" in csv_text([row], list(row)).encode().decode()
    assert str(query(tmp_path / "runs", "SELECT data FROM runs")[1]).count("udce9") == 1
    page = report(run, tmp_path / "report.html")
    assert r"caf\udce9.npy" in page.read_text(encoding="utf-8")
