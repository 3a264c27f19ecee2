"""Pages of studies: HTML, CSV and JSON of one study, Markdown of many, and the figures that they show."""

from vaescope.studies.pages.figures import write_figures
from vaescope.studies.pages.page import make_output, rows_for_people, study_page, write_study

__all__ = ["make_output", "rows_for_people", "study_page", "write_figures", "write_study"]
