"""Plots, pages and the report in one HTML file."""

from vaescope.reporting import downsample, heatmaps, page, paper, pictures, style
from vaescope.reporting.drawing import draw
from vaescope.reporting.plots import Plot
from vaescope.reporting.report import report

__all__ = ["Plot", "downsample", "draw", "heatmaps", "page", "paper", "pictures", "report", "style"]
