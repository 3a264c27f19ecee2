"""The table of studies: every listed name has a study, and every published number belongs to one."""

from __future__ import annotations

import json
from importlib.resources import files

from vaescope.studies import STUDIES, bonheme, clapham, mathieu, pastrana, rolinek

NAMES = [
    "rolinek-table1",
    "rolinek-table2",
    "rolinek-figure4",
    "rolinek-toy",
    "rolinek-scales",
    "mathieu-figure2",
    "mathieu-figure3",
    "mathieu-figure4",
    "mathieu-figure5",
    "clapham-figure3",
    "clapham-figure4-5",
    "clapham-figure6-9",
    "clapham-figure10-14",
    "clapham-figure12-14",
    "pastrana-figure3",
    "pastrana-figure4",
    "pastrana-figure5",
    "pastrana-figure6",
    "pastrana-figure7",
    "pastrana-figure1-8",
    "bonheme-chapter5",
    "bonheme-figure6.2-6.3",
    "bonheme-figure6.4",
    "bonheme-figure6.5",
    "bonheme-figure6.6-6.8",
    "bonheme-figure6.9-6.11",
    "bonheme-appendixB",
    "bonheme-figure7.1",
    "bonheme-figure7.2-7.10",
    "bonheme-figureC.2-C.4",
    "bonheme-figureC.5",
    "bonheme-classifier",
    "bonheme-figure8.4",
    "bonheme-table8.1",
    "bonheme-table8.2",
    "bonheme-table8.3",
    "bonheme-table8.4",
    "bonheme-table8.5",
    "bonheme-table8.6",
    "bonheme-table8.7",
    "bonheme-table8.8",
    "bonheme-tableD.5",
    "bonheme-figure8.5-8.8",
    "bonheme-figure8.9-8.11",
    "bonheme-figure8.12",
    "bonheme-figureD.1-D.4",
    "bonheme-equationD.1",
]


def test_every_table_and_figure_has_its_study_once() -> None:
    assert sorted(STUDIES) == sorted(NAMES)
    documents = (bonheme, clapham, mathieu, pastrana, rolinek)
    written = [study for document in documents for study in document.STUDIES]
    assert len(written) == len(STUDIES)


def test_every_study_has_a_description() -> None:
    for study in STUDIES.values():
        assert study.source
        assert study.question.rstrip().endswith(("?", "."))
        assert len(study.left_open) > 30 or study.shared, study.name


def test_every_published_number_belongs_to_a_study() -> None:
    for file in files("vaescope.studies.published").iterdir():
        if file.name.endswith(".json"):
            document = file.name.removesuffix(".json")
            for part, told in json.loads(file.read_text(encoding="utf-8")).items():
                assert f"{document}-{part}" in STUDIES
                assert told["source"]
