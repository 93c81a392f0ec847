"""Calendar windows: the times or hours at which a digest may leave. Pure: time is an argument.

recurrence.py knows what recurs in local time, zones.py makes instants of local times, occurrences.py joins both;
openings.py keeps the next instants at hand for adds, gaps.py judges a window when it is made.
"""

from digestif.core.windows.admission import admission
from digestif.core.windows.rule import KINDS, ZoneRule
from digestif.core.windows.window import Window
from digestif.core.windows.zones import check_zone

__all__ = ["KINDS", "Window", "ZoneRule", "admission", "check_zone"]
