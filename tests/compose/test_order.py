"""Order: with `order="oldest"` the records of a subject are read downwards, and the newest ones are still shown."""

import re
from typing import Any

import pytest

from digestif.compose.grouping import summarize
from digestif.compose.renderer import Renderer
from digestif.core.records import Record
from digestif.errors import ConfigError

NAMES = ["Ada", "Ben", "Cleo", "Dana", "Eve", "Finn", "Gus"]
FORMATS = ["text", "html", "markdown", "slack"]


def texts(*posts: str, order: Any = "oldest", **grouping: Any) -> list[str]:
    """Render a message in all formats. Each name says something about a post; the last name is the newest."""
    values = [
        {"post": posts[place % len(posts)], "author": name, "text": f"says {name}"} for place, name in enumerate(NAMES)
    ]
    records = [Record(str(place), value, 60.0 * place) for place, value in enumerate(values)]
    made = Renderer(order=order).render(summarize(records, **grouping), formats=FORMATS)
    slack = "\n".join(block["text"]["text"] for block in made.blocks if block["type"] == "section")
    return [made.text, made.html.partition("</head>")[2].partition("</div>")[2], made.markdown, slack]


def said(text: str) -> list[str]:
    return re.findall(r"says (\w+)", text)


@pytest.mark.parametrize("grouping", [{"group_by": ["post"], "items": 3}, {"group_by": [], "top": 3}])
def test_the_newest_records_of_a_conversation_are_read_downwards(grouping: dict[str, Any]) -> None:
    for text in texts("tea", **grouping):
        assert said(text) == ["Eve", "Finn", "Gus"]
        assert text.index("4 earlier") < text.index("Eve")


def test_records_of_each_of_several_subjects_are_read_downwards() -> None:
    for text in texts("tea", "knots", group_by=["post"], items=2):
        assert said(text) == ["Eve", "Gus", "Dana", "Finn"]
        assert text.index("2 earlier") < text.index("Eve")


def test_the_newest_record_comes_first_unless_the_route_says_otherwise() -> None:
    for text in texts("tea", order="newest", group_by=["post"], items=3):
        assert said(text) == ["Gus", "Finn", "Eve"]
        assert text.index("Eve") < text.index("and 4 more")


def test_what_the_order_of_subjects_is_by_weight_stays() -> None:
    weight = {"by": "author", "order": ["Ada", "Finn"]}

    assert said(texts("tea", group_by=[], weight=weight)[0])[:3] == ["Ada", "Finn", "Gus"]


def test_the_mail_is_still_named_after_the_newest_record() -> None:
    records = [Record(name, {"text": name}, float(place)) for place, name in enumerate(NAMES)]

    assert Renderer(order="oldest").render(summarize(records), formats=[]).subject == "Gus and 6 more (7 events)"


def test_another_order_is_refused() -> None:
    with pytest.raises(ConfigError, match='order: \'latest\' is neither "newest" nor "oldest"'):
        Renderer(order="latest")  # type: ignore[arg-type]
