"""From runs to reports, figures of samples and histories: what is shown is chosen here, and drawn in `report/`."""

from beholder.reporting.grids import grid
from beholder.reporting.histories import history
from beholder.reporting.make import write_report

__all__ = ["grid", "history", "write_report"]
