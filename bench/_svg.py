"""Pictures of figures as SVG, for light and dark pages: a frame, axes and marks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = {  # the classes of marks; light, dark
    "a": ("#0969da", "#4493f8"),
    "b": ("#cf222e", "#f85149"),
    "c": ("#1a7f37", "#3fb950"),
    "d": ("#9a6700", "#d29922"),
}


@dataclass(frozen=True)
class Scale:
    """From figures to places, by their logarithms, between two powers of ten."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def around(cls, figures: Iterable[float], start: float, end: float) -> "Scale":
        known = [figure for figure in figures if figure > 0] or [1.0]
        low = floor(log10(min(known)))
        return cls(low, max(ceil(log10(max(known))), low + 1), start, end)

    def at(self, figure: float) -> float:
        exponent = min(max(log10(figure) if figure > 0 else self.low, self.low), self.high)
        return self.start + (self.end - self.start) * (exponent - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[float]:
        yield from (10.0**power for power in range(self.low, self.high + 1))


def drawing(width: int, height: int, *, title: str, summary: str, body: Iterable[str]) -> str:
    """A whole picture."""
    box = f'viewBox="0 0 {width} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title summary">',
            f'  <title id="title">{escape(title)}</title>',
            f'  <desc id="summary">{escape(summary)}</desc>',
            f"  <style>{_style()}</style>",
            f'  <rect class="panel" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            *(f"  {line}" for line in body),
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def line(x: float, y: float, to_x: float, to_y: float, kind: str = "axis") -> str:
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>'


def dot(x: float, y: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"/>'


def curve(points: Iterable[tuple[float, float]], kind: str) -> str:
    return f'<path class="curve {kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def short(figure: float) -> str:
    """A power of ten, as a label."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if figure >= limit:
            return f"{figure / limit:g}{unit}"
    return f"{figure:g}"


def _style() -> str:
    light = "\n".join(_marks(kind, colours[0]) for kind, colours in COLOURS.items())
    dark = "\n".join(_marks(kind, colours[1]) for kind, colours in COLOURS.items())
    return f"""
    .panel {{ fill: #ffffff; stroke: #d0d7de }}
    text {{ fill: #1f2328; font: 13px ui-sans-serif, system-ui, sans-serif }}
    .lane {{ font-weight: 600 }}
    .note {{ fill: #57606a; font-size: 11px }}
    .middle {{ text-anchor: middle }}
    .end {{ text-anchor: end }}
    .axis {{ stroke: #d0d7de; fill: none }}
    .curve {{ fill: none; stroke-width: 2 }}
{light}
    @media (prefers-color-scheme: dark) {{
    .panel {{ fill: #151b23; stroke: #3d444d }}
    text {{ fill: #f0f6fc }}
    .note {{ fill: #9198a1 }}
    .axis {{ stroke: #3d444d }}
{dark}
    }}
  """


def _marks(kind: str, colour: str) -> str:
    return f"    .{kind} {{ fill: {colour} }} .curve.{kind} {{ fill: none; stroke: {colour} }}"
