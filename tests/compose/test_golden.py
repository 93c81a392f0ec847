"""Mails are as in the approved files. `python -m tests.compose.test_golden` writes the files anew."""

import json
from pathlib import Path
from typing import Any

import pytest

from digestif.compose.renderer import Renderer
from digestif.compose.summary import Summary
from tests.compose.comments import COMMENTS, HEBREW, comments, hebrew, one_author, one_comment, one_post, several_posts
from tests.compose.samples import LINKS, MONDAY, hostile, many, overflow, single

GOLDEN = Path(__file__).parent / "golden"
MAILS: dict[str, Summary] = {
    "one": single(),
    "often": single(count=7, lasts=1800),
    "many": many(),
    "overflow": overflow(),
    "hostile": hostile(),
    "comments": comments(),
    "comment": one_comment(),
    "author": one_author(),
    "post": one_post(),
    "posts": several_posts(),
    "hebrew": hebrew(),
}
WORDS: dict[str, Any] = {"hebrew": HEBREW} | dict.fromkeys(("comments", "comment", "author", "post", "posts"), COMMENTS)


@pytest.mark.parametrize("name", MAILS)
def test_a_mail_reads_as_it_did(name: str) -> None:
    for file, text in files_of(name).items():
        assert text.encode() == (GOLDEN / file).read_bytes(), file


def files_of(name: str) -> dict[str, str]:
    rendered = Renderer(zone="Europe/Berlin").render(
        MAILS[name],
        formats=["text", "html", "markdown", "slack"],
        next_delivery=MONDAY + 9000,
        links=LINKS,
        wording=WORDS.get(name),
    )
    return {
        f"{name}.subject.txt": rendered.subject,
        f"{name}.txt": rendered.text,
        f"{name}.html": rendered.html,
        f"{name}.md": rendered.markdown,
        f"{name}.slack.json": json.dumps(rendered.blocks, ensure_ascii=False, indent=1),
    }


if __name__ == "__main__":
    for each in MAILS:
        for path, contents in files_of(each).items():
            (GOLDEN / path).write_bytes(contents.encode())
