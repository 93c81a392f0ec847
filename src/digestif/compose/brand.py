"""Brands: the sender's name, logo and colour in messages, and the colours of the built-in HTML made from it."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from digestif.compose.texts import one_line, safe_link
from digestif.core.placeholders import unfilled_fault
from digestif.core.texts import did_you_mean, shortened
from digestif.errors import ConfigError

NAME_LENGTH = 60
LOGO_LENGTH = 500
LIGHT, DARK = "#ffffff", "#1d2024"  # what texts and buttons stand on
READABLE = 4.5  # contrast of a text to what is behind it, by WCAG 2.2 (AA)
VISIBLE = 1.3  # of a button, whose text is readable by itself
STEPS = 50  # from a colour to black or white

Rgb = tuple[float, float, float]
_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}")


@dataclass(frozen=True, slots=True)
class Colors:
    """The colours of links, counts and buttons; each `dark_…` one is for dark mode."""

    link: str = "#2456c9"
    chip: str = "#e9effb"  # behind a count
    chip_text: str = "#2450b2"
    button: str = "#2456c9"
    button_text: str = "#ffffff"
    dark_link: str = "#8fb4ff"
    dark_chip: str = "#2a313c"
    dark_chip_text: str = "#b4cbff"
    dark_button: str = "#3b6fe0"
    dark_button_text: str = "#ffffff"


@dataclass(frozen=True, slots=True)
class Brand:
    """Who a message is from, as readers see it. Empty parts are not shown."""

    name: str = ""
    logo: str = ""  # the address of an image
    color: str = ""
    colors: Colors = field(default_factory=Colors)

    def for_templates(self) -> dict[str, Any]:
        return {"name": self.name, "logo": self.logo, "color": self.color, "colors": asdict(self.colors)}


def brand_of(given: object) -> Brand:
    """Read a mapping such as `{"name": "Web shop", "color": "#0a7d55"}`. Raises ConfigError if it can't be read."""
    if given is None:
        return Brand()
    if not isinstance(given, Mapping):
        raise ConfigError(f'brand: {shortened(given)} is not a mapping such as {{"name": "Web shop"}}')
    known = [each.name for each in fields(Brand) if each.name != "colors"]
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"brand: {shortened(name)}: unknown{did_you_mean(str(name), known)}")
        if not isinstance(value, str):
            raise ConfigError(f"brand: {name}: {shortened(value)} is not a text")
    color = _checked_color(given.get("color", ""))
    colors = _colors_of(color) if color else Colors()
    return Brand(_checked_name(given.get("name", "")), _checked_logo(given.get("logo", "")), color, colors)


def _checked_name(name: str) -> str:
    if fault := unfilled_fault(name):
        raise ConfigError(f"brand: name: {fault}")
    if len(name) > NAME_LENGTH:
        raise ConfigError(f"brand: name: {shortened(name)} has more than {NAME_LENGTH} characters")
    return one_line(name, NAME_LENGTH)


def _checked_logo(logo: str) -> str:
    if logo and (not logo.startswith("https://") or not safe_link(logo) or len(logo) > LOGO_LENGTH):
        raise ConfigError(
            f"brand: logo: {shortened(logo)} is no https:// address of an image of at most {LOGO_LENGTH} characters"
        )
    return safe_link(logo)


def _checked_color(color: str) -> str:
    if color and not _COLOR.fullmatch(color):
        raise ConfigError(f"brand: color: {shortened(color)} is not a colour such as #0a7d55 or #07c")
    return color.lower() if len(color) != 4 else "#" + "".join(digit * 2 for digit in color[1:].lower())


# Colours


def _colors_of(color: str) -> Colors:
    """Return colours that look like a brand's and stay readable, on white and in dark mode."""
    chip, dark_chip = _mixed(color, LIGHT, 0.9), _mixed(color, DARK, 0.75)
    button, dark_button = _apart(color, LIGHT, VISIBLE), _apart(color, DARK, VISIBLE)
    return Colors(
        link=_apart(color, LIGHT, READABLE),
        chip=chip,
        chip_text=_apart(color, chip, READABLE),
        button=button,
        button_text=_text_on(button),
        dark_link=_apart(color, DARK, READABLE),
        dark_chip=dark_chip,
        dark_chip_text=_apart(color, dark_chip, READABLE),
        dark_button=dark_button,
        dark_button_text=_text_on(dark_button),
    )


def _apart(color: str, behind: str, ratio: float) -> str:
    """Return a colour, darker or lighter until its contrast to what is behind it is high enough."""
    end = _text_on(behind)
    shades = (_mixed(color, end, step / STEPS) for step in range(STEPS + 1))
    return next((shade for shade in shades if contrast(shade, behind) >= ratio), end)


def _text_on(color: str) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    return max("#ffffff", "#000000", key=lambda text: contrast(text, color))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG: from 1, for the same, to 21, for black and white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _rgb(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mixed(color: str, other: str, share: float) -> str:
    parts = (one + (two - one) * share for one, two in zip(_rgb(color), _rgb(other), strict=True))
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _rgb(color: str) -> Rgb:
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue
