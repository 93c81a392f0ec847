"""The picture of a week: arrivals as dots, then for each policy its messages as bars, over shaded nights."""

from collections.abc import Iterator
from datetime import timedelta
from math import sqrt

from tests.docs.pages import DOCS
from tests.docs.week.events import Week, local
from tests.docs.week.outcomes import Delivery, Outcome

PICTURE = DOCS / "images" / "week.svg"

WIDTH = 960
LEFT, RIGHT = 16, WIDTH - 16  # of the time axis
DAYS_AT, TOP = 40, 52  # the names of the days; the plot begins below them
DOTS_AT, DOTS = 92, 40  # the strip of arrivals
ROWS_AT, ROW = 140, 92
BAR = 3.6  # the height of a bar is this times the square root of its events
COUNTED = 30  # bars of at least this many events show their number…
APART = 30  # …if the number before is this far away

STYLE = """
    .panel { fill: #ffffff; stroke: #d0d7de }
    text { fill: #1f2328; font: 13px ui-sans-serif, system-ui, sans-serif }
    .lane { font-weight: 600 }
    .note { fill: #57606a; font-size: 12px; text-anchor: end }
    .count { fill: #57606a; font-size: 11px; text-anchor: middle }
    .beside { text-anchor: start }
    .night { fill: #eaeef2 }
    .axis { stroke: #afb8c1; stroke-width: 1; fill: none }
    .event { stroke: #0969da; stroke-width: 2.6; stroke-linecap: round; opacity: 0.65; fill: none }
    .message { stroke: #1a7f37; stroke-width: 2; fill: none }
    .change { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3; fill: none }
    .changetext { fill: #cf222e }
    .middle { text-anchor: middle }
    @media (max-width: 600px) {
      text { font-size: 24px }
      .wide { display: none }
      .event, .message { stroke-width: 4 }
      .change { stroke-width: 3 }
    }
    @media (prefers-color-scheme: dark) {
      .panel { fill: #151b23; stroke: #3d444d }
      text { fill: #f0f6fc }
      .note, .count { fill: #9198a1 }
      .night { fill: #0a0e13 }
      .axis { stroke: #656c76 }
      .event { stroke: #4493f8; opacity: 0.85 }
      .message { stroke: #3fb950 }
      .change { stroke: #f85149 }
      .changetext { fill: #f85149 }
    }
  """

NOTES = {
    "default": "the first at once, then calm: 5 to 30 minutes",
    "hourly": "the first at once, then at most one an hour",
    "daily": "every day at 09:00",
    "quiet hours": "like the default, but nothing from 22:00 to 07:00",
}


def draw(week: Week, found: dict[str, Outcome]) -> str:
    """The picture of what each policy made of a week."""
    return "\n".join([*_lines(Axis(week), found), ""])


class Axis:
    """From instants to places: seven days, and the morning on which the last messages leave."""

    def __init__(self, week: Week) -> None:
        self.week = week
        self.change = week.change.timestamp()
        self.start = week.moment(0, 0)
        self.end = week.moment(7, 11)

    def x(self, at: float) -> float:
        return LEFT + (RIGHT - LEFT) * (at - self.start) / (self.end - self.start)


def _lines(axis: Axis, found: dict[str, Outcome]) -> Iterator[str]:
    bottom = ROWS_AT + ROW * len(found)
    times = found["default"].times
    messages = ", ".join(f"{name} {len(outcome.deliveries)}" for name, outcome in found.items())
    box = f'viewBox="0 0 {WIDTH} {bottom + 48}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title summary">'
    yield '  <title id="title">A week of events through four policies</title>'
    yield f'  <desc id="summary">{len(times)} events for one reader. Messages: {messages}.</desc>'
    yield f"  <style>{STYLE}</style>"
    yield f'  <rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{bottom + 47}" rx="8"/>'
    yield from _nights(axis, bottom)
    yield from _days(axis)
    yield from _clock_change(axis, bottom)
    yield from _arrivals(axis, times)
    for row, (name, outcome) in enumerate(found.items()):
        yield from _row(axis, name, outcome.deliveries, top=ROWS_AT + ROW * row)
    yield "</svg>"


def _nights(axis: Axis, bottom: int) -> Iterator[str]:
    yield "\n  <!-- from 22:00 to 07:00 -->"
    for day in range(8):
        left = axis.x(max(axis.start, axis.week.moment(day - 1, 22)))
        width = axis.x(axis.week.moment(day, 7)) - left
        yield f'  <rect class="night" x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP}"/>'


def _days(axis: Axis) -> Iterator[str]:
    yield "\n  <!-- days -->"
    for day in range(7):
        noon = axis.week.moment(day, 12)
        name, date = f"{local(noon):%a}", f"{local(noon).day} {local(noon):%b}"
        place = f'x="{axis.x(noon):.1f}" y="{DAYS_AT}"'
        yield f'  <text class="middle" {place}>{name}<tspan class="wide"> {date}</tspan></text>'


def _clock_change(axis: Axis, bottom: int) -> Iterator[str]:
    x = axis.x(axis.change)
    before, after = local(axis.change - 1) + timedelta(seconds=1), local(axis.change)
    says = f"clocks go from {before:%H:%M} to {after:%H:%M}"
    yield "\n  <!-- the clock change -->"
    yield f'  <path class="change" d="M{x:.1f} {TOP}V{bottom + 12}"/>'
    yield f'  <text class="changetext middle" x="{x:.1f}" y="{bottom + 34}">{says}</text>'


def _arrivals(axis: Axis, times: list[float]) -> Iterator[str]:
    """One dot per event; the height only keeps dots apart."""
    golden = (sqrt(5) - 1) / 2
    dots = [f"M{axis.x(at):.1f} {DOTS_AT + DOTS * (index * golden % 1):.1f}h0" for index, at in enumerate(times)]
    yield "\n  <!-- events -->"
    yield from _labels(f"{len(times)} events", "one dot each", y=TOP + 24)
    yield f'  <path class="event" d="{"".join(dots)}"/>'


def _row(axis: Axis, name: str, deliveries: list[Delivery], *, top: int) -> Iterator[str]:
    """A policy: one bar per message."""
    base = top + ROW - 8
    bars = [f"M{axis.x(one.at):.1f} {base}V{base - _height(one):.1f}" for one in deliveries]
    yield f"\n  <!-- {name} -->"
    yield from _labels(f"{name}: {len(deliveries)} messages", NOTES[name], y=top + 26)
    yield f'  <path class="message" d="{"".join(bars)}"/>'
    yield f'  <path class="axis" d="M{LEFT} {base + 0.5}H{RIGHT}"/>'
    for one in _counted(axis, deliveries):
        yield _count(axis, one, y=base - _height(one) - 4)


def _labels(title: str, note: str, *, y: int) -> Iterator[str]:
    yield f'  <text class="lane" x="{LEFT + 4}" y="{y}">{title}</text>'
    yield f'  <text class="note wide" x="{RIGHT - 4}" y="{y}">{note}</text>'


def _height(delivery: Delivery) -> float:
    return BAR * sqrt(len(delivery.events))


def _counted(axis: Axis, deliveries: list[Delivery]) -> Iterator[Delivery]:
    """The messages whose number of events is shown."""
    free = 0.0
    for one in deliveries:
        if len(one.events) >= COUNTED and axis.x(one.at) >= free:
            yield one
            free = axis.x(one.at) + APART


def _count(axis: Axis, delivery: Delivery, *, y: float) -> str:
    """The number of events above a bar; to the right of the line of the clock change, not across it."""
    x, line = axis.x(delivery.at), axis.x(axis.change)
    if abs(x - line) > APART / 2:
        return f'  <text class="count wide" x="{x:.1f}" y="{y:.1f}">{len(delivery.events)}</text>'
    return f'  <text class="count wide beside" x="{line + 5:.1f}" y="{y:.1f}">{len(delivery.events)}</text>'
