"""The pages: `run.html` for a run, and `index.html` above all runs of the outbox.

One file each, which asks nobody for anything: styles, script and charts stand in it, and its policy lets nothing else run. Without script
everything is there; the script only searches, filters and opens. Feed `RunPage` the drops and entries of a run, then `finish`.
"""

from loadsheet.reports.web.index import INDEX, fleet_status, write_index
from loadsheet.reports.web.run import PAGE, RunPage

__all__ = ["INDEX", "PAGE", "RunPage", "fleet_status", "write_index"]
