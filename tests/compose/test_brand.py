"""Brands: a name, a logo and a colour that stays readable, in each format and never as markup."""

import json
from typing import Any

import pytest

from digestif.compose.brand import DARK, LIGHT, READABLE, brand_of, contrast
from digestif.compose.grouping import summarize
from digestif.compose.renderer import Rendered, Renderer
from digestif.core.records import Record
from digestif.errors import ConfigError

LOGO = "https://cdn.example/logo.png?size=2&dark=0"
COLORS = ["#000", "#fff", "#ffd400", "#0a7d55", "#ff0000", "#00f", "#808080", "#1d2024", "#123456", "#fffffe"]


def rendered(**brand: str) -> Rendered:
    summary = summarize([Record("1", {"title": "Build 7 failed"}, 0.0), Record("2", {"title": "Tea"}, 1.0)])
    links = {"open": "https://shop.example/"}
    formats = ["text", "html", "markdown", "slack"]
    return Renderer(brand=brand).render(summary, formats=formats, title="Alerts", links=links)


def test_the_name_stands_above_the_message_in_each_format() -> None:
    made = rendered(name="Web shop & Co")

    assert made.text.startswith("Web shop & Co\n\nAlerts\n")
    assert made.markdown.startswith("**Web shop &amp; Co**\n\n# Alerts\n")
    assert made.html.index("Web shop &amp; Co") < made.html.index("<h1")
    assert made.blocks[0]["elements"][0]["text"] == "*Web shop &amp; Co*"


def test_a_title_that_is_the_name_is_not_said_twice_in_text() -> None:
    assert rendered(name="Alerts").text.count("Alerts") == 1


def test_the_logo_is_an_image_with_the_name_as_its_text() -> None:
    made = rendered(name='Web "shop"', logo=LOGO)

    assert f'<img src="{LOGO.replace("&", "&amp;")}" alt="Web &#34;shop&#34;"' in made.html
    assert made.blocks[0]["elements"][0] == {"type": "image", "image_url": LOGO, "alt_text": 'Web "shop"'}


def test_without_a_brand_a_message_loads_nothing_and_has_no_line_for_it() -> None:
    made = rendered()

    assert "<img" not in made.html
    assert 'class="bar"' not in made.html
    assert made.text.startswith("Alerts\n")
    assert made.blocks[0]["type"] == "header"


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\r\nBcc: b", "\u202egnp.exe", "<!channel> *b*"])
def test_a_hostile_name_stays_text(name: str) -> None:
    made = rendered(name=name)

    assert "<script" not in made.html
    assert "\u202e" not in made.html + made.text
    assert "<!channel>" not in json.dumps(made.blocks)
    assert "a\r" not in made.text


@pytest.mark.parametrize("color", COLORS)
def test_texts_in_the_colour_are_readable_on_white_and_in_dark_mode(color: str) -> None:
    colors = brand_of({"color": color}).colors

    for text, behind in [
        (colors.link, LIGHT),
        (colors.chip_text, colors.chip),
        (colors.button_text, colors.button),
        (colors.dark_link, DARK),
        (colors.dark_chip_text, colors.dark_chip),
        (colors.dark_button_text, colors.dark_button),
    ]:
        assert contrast(text, behind) >= READABLE, (text, behind)


def test_the_colours_without_a_brand_are_readable_too() -> None:
    colors = brand_of({}).colors

    assert contrast(colors.link, LIGHT) >= READABLE
    assert contrast(colors.dark_link, DARK) >= READABLE
    assert contrast(colors.button_text, colors.button) >= READABLE


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_a_colour_that_is_readable_is_used_unchanged() -> None:
    html = rendered(color="#0A7D55").html

    assert "background:#0a7d55;color:#ffffff" in html
    assert "#2456c9" not in html


def test_a_light_colour_has_a_dark_text_on_its_button() -> None:
    assert "background:#ffdd00;color:#000000" in rendered(color="#fd0").html


@pytest.mark.parametrize(
    ("brand", "message"),
    [
        ("Shop", "is not a mapping"),
        ({"colour": "#fff"}, "did you mean color"),
        ({"name": 7}, "brand: name: 7 is not a text"),
        ({"name": "x" * 61}, "more than 60 characters"),
        ({"name": "For {recipient}"}, "brand: name: "),
        ({"color": "green"}, "not a colour such as #0a7d55"),
        ({"color": "#12345"}, "not a colour"),
        ({"color": "#fff;background:url(//x)"}, "not a colour"),
        ({"logo": "http://cdn.example/logo.png"}, "no https:// address of an image"),
        ({"logo": "javascript:alert(1)"}, "no https:// address"),
        ({"logo": "https://x.example/" + "a" * 500}, "of at most 500 characters"),
    ],
)
def test_a_brand_that_can_not_be_read_is_refused(brand: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Renderer(brand=brand)
