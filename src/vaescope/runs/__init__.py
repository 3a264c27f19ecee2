"""Runs: configuration, folder, fit and resume, and questions over many of them."""

from vaescope.runs.configuration import Configuration, Split
from vaescope.runs.fitting import fit, fit_many
from vaescope.runs.run import Run
from vaescope.runs.settings import Settings
from vaescope.runs.store import Store, summary

__all__ = ["Configuration", "Run", "Settings", "Split", "Store", "fit", "fit_many", "summary"]
