"""Users' templates: where they are found, what they are given, and what happens when they are wrong."""

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif.compose.processes import MOST_CHILDREN
from digestif.compose.renderer import Renderer, TemplateFailed
from digestif.compose.summary import Summary
from digestif.compose.texts import trimmed
from digestif.errors import ConfigError
from tests.compose.comments import GERMAN, comments
from tests.compose.samples import LINKS, MONDAY, group, hostile, many, overflow, single, subject, summary


def renderer_of(folder: Path, /, **files: str) -> Renderer:
    """A renderer of the template "own" with these files, by ending."""
    for ending, text in files.items():
        (folder / f"own.{ending.replace('_', '.')}").write_text(text)
    return Renderer("own", folder=folder)


class OwnTemplate:
    """One renderer, and so one child process, for many versions of a template: starting a child is slow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.renderer = renderer_of(folder, txt="", slack_json="[]")
        self._version = 0

    def text(self, template: str, what: Summary | None = None, **options: Any) -> str:
        self._write("txt", template)
        return self.renderer.render(what or many(), formats=["text"], **options).text

    def blocks(self, template: str) -> tuple[dict[str, Any], ...]:
        self._write("slack.json", template)
        return self.renderer.render(many(), formats=["slack"]).blocks

    def _write(self, ending: str, template: str) -> None:
        file = self.folder / f"own.{ending}"
        file.write_text(template)
        self._version += 1
        os.utime(file, (self._version, self._version))  # Jinja2 reloads a file when its time changes


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnTemplate]:
    own = OwnTemplate(tmp_path_factory.mktemp("templates"))
    yield own
    own.renderer.close()


def test_files_of_a_folder_make_what_their_endings_say(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="text", html="<p>html</p>", md="markdown", subject_txt="subject")

    rendered = renderer.render(many(), formats=["text", "html", "markdown"])

    assert (rendered.subject, rendered.text, rendered.html, rendered.markdown) == (
        "subject",
        "text",
        "<p>html</p>",
        "markdown",
    )
    renderer.close()


def test_files_that_are_missing_are_stood_in_for_by_the_built_in_ones(tmp_path: Path) -> None:
    ours = Renderer().render(many(), formats=["text", "html", "markdown", "slack"])
    renderer = renderer_of(tmp_path, txt="mine")

    rendered = renderer.render(many(), formats=["text", "html", "markdown", "slack"])

    assert rendered.text == "mine"
    assert (rendered.subject, rendered.html, rendered.markdown, rendered.blocks) == (
        ours.subject,
        ours.html,
        ours.markdown,
        ours.blocks,
    )
    renderer.close()


def test_a_folder_may_replace_the_default(tmp_path: Path) -> None:
    (tmp_path / "default.txt").write_text("{% extends 'builtin/default.txt' %}")
    renderer = Renderer(folder=tmp_path)

    assert renderer.render(many(), formats=["text"]).text == Renderer().render(many(), formats=["text"]).text
    assert not renderer.in_process
    assert Renderer().in_process
    renderer.close()


def test_a_folder_without_templates_of_that_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none of weekly.subject.txt, .*, weekly.slack.json is a file"):
        Renderer("weekly", folder=tmp_path)
    with pytest.raises(ConfigError, match="'weekly' is not built in"):
        Renderer("weekly")


def test_no_name_leads_out_of_the_folder(own: OwnTemplate) -> None:
    (own.folder.parent / "secret.txt").write_text("secret")

    with pytest.raises(ConfigError):
        Renderer("../secret", folder=own.folder)
    with pytest.raises(TemplateFailed, match="TemplateNotFound"):
        own.text("{% include '../secret.txt' %}")


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'link.txt' %}",
        "{% include 'link.txt' ignore missing %}",
        "{% import 'link.txt' as secrets %}",
        "{% extends 'link.txt' %}",
        "{% include 'way/secret.txt' %}",
    ],
)
def test_no_link_leads_out_of_the_folder(own: OwnTemplate, template: str) -> None:
    (own.folder.parent / "secret.txt").write_text("secret")
    for link, target in ("link.txt", "../secret.txt"), ("way", ".."):
        (own.folder / link).unlink(missing_ok=True)
        (own.folder / link).symlink_to(target)

    with pytest.raises(TemplateFailed, match=r"own.txt, line 1: SecurityError: \S+ is a link that leads out of"):
        own.text(template)


def test_a_template_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "own.txt").symlink_to("../secret.txt")

    with pytest.raises(ConfigError, match=r"template: own.txt is a link that leads out of"):
        Renderer("own", folder=folder)


def test_links_within_the_folder_and_to_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "mount" / "..2026").mkdir(parents=True)
    (tmp_path / "mount" / "..2026" / "own.txt").write_text("{% include 'part.txt' %}!")
    (tmp_path / "mount" / "..2026" / "part.txt").write_text("mine")
    (tmp_path / "mount" / "..data").symlink_to("..2026")
    for name in ("own.txt", "part.txt"):
        (tmp_path / "mount" / name).symlink_to(f"..data/{name}")
    (tmp_path / "folder").symlink_to("mount")
    renderer = Renderer("own", folder=tmp_path / "folder")

    assert renderer.render(many(), formats=["text"]).text == "mine!"
    renderer.close()


def test_a_template_is_given_the_summary_the_window_the_next_delivery_and_the_links(own: OwnTemplate) -> None:
    template = (
        "{{ count }} {{ subjects }} {{ dropped }} {{ more }} {{ more_records }} {{ timeline }}\n"
        "{{ window }} ({{ zone }}), next {{ next }}\n"
        "{% for group in groups %}{{ group.label }} {{ group.count }} {{ group.more }} {{ group.more_records }}\n"
        "{% endfor %}{% for link in links %}{{ link.name }}={{ link.url }} {% endfor %}"
    )

    text = own.text(template, overflow(), zone="Europe/Berlin", next_delivery=MONDAY + 9000, links=LINKS)

    assert text == (
        "9961 2023 120 17 203 mail:ada\n"
        "Mon 16 Nov 2026, 09:12 – 09:22 (Europe/Berlin), next Mon 16 Nov 2026, 11:42\n"
        "Sensors 9581 1990 8411\n"
        "Gateways 177 3 4\n"
        "open=https://alerts.example/inbox settings=https://alerts.example/settings "
        "unsubscribe=https://alerts.example/u?who=ada&what=mail "
    )


def test_a_template_is_given_the_items_of_subjects_and_the_words(own: OwnTemplate) -> None:
    template = (
        "{% for item in groups[0].subjects[0].items %}{{ item.author }}/{{ item.text }}/{{ item.at | clock }}/"
        "{{ item.value.post }} {% endfor %}{{ groups[0].subjects[0].more_items }} {{ wording.open }} "
        "{{ 12345 | number }} {{ 12345 | plural('Tee') }} {{ last | moment }}"
    )

    text = own.text(template, comments(), wording=GERMAN)

    assert text.startswith("Grace/Seventy degrees, never more. It took me years to learn that./08:12/How to brew")
    assert text.endswith("1 Öffnen 12.345 12.345 Tees Mo, 16. Nov. 2026, 08:12 Uhr")


def test_a_template_sees_values_and_has_filters_for_times_numbers_and_text(own: OwnTemplate) -> None:
    value = {"title": "T", "user": {"name": "A*da", "tags": ["x", "y"]}, "url": "javascript:1"}
    template = (
        "{% set s = groups[0].subjects[0] %}{{ s.value.user.name | md }} {{ s.value.user.tags[1] }} "
        "[{{ s.value.url | link }}] {{ s.first | clock }} {{ s.last | moment }} {{ 12345 | number }} "
        "{{ s.count | plural('event') }} {{ 'a\n\u202eb' | line }}"
    )

    text = own.text(template, single(value, count=2, lasts=60), hours=12)

    assert text == "A\\*da y [] 8:12 am Mon 16 Nov 2026, 8:13 am 12,345 2 events a b"


def test_html_is_escaped_by_itself_and_its_styles_are_written_into_its_tags(tmp_path: Path) -> None:
    html = "<html><head><style>p { color: red }</style></head><body><p>{{ groups[0].label }}</p></body></html>"
    renderer = renderer_of(tmp_path, html=html)

    made = renderer.render(hostile(), formats=["html"]).html

    assert '<p style="color: red;">&lt;script&gt;' in made
    assert "<script" not in made
    renderer.close()


SLACK = """\
[
  {"type": "header", "text": {"type": "plain_text", "text": {{ headline | tojson }}}}
  {% for group in groups %}{% for subject in group.subjects %}
  , {"type": "section", "text": {"type": "mrkdwn", "text": {{ ("*" ~ subject.label | slack ~ "*") | tojson }}}}
  {% endfor %}{% endfor %}
]
"""


def test_blocks_for_slack_of_ones_own(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, slack_json=SLACK)
    hurt = [subject('"<!channel>" \\ &', {"title": "x", "url": "y"}), subject("b", {"n": 7})]

    rendered = renderer.render(summary(group("", *hurt)), formats=["slack"])

    assert rendered.blocks == (
        {"type": "header", "text": {"type": "plain_text", "text": "2 events about 2 subjects"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": '*"&lt;!channel&gt;" \\ &amp;*'}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*b*"}},
    )
    renderer.close()


def test_blocks_may_be_what_the_block_kit_builder_copies_and_use_values(tmp_path: Path) -> None:
    renderer = renderer_of(
        tmp_path,
        slack_json='{"blocks": [{"type": "divider", "block_id": {{ groups[0].subjects[0].value.id | tojson }}}]}',
    )

    assert renderer.render(single({"id": "n7"}), formats=["slack"]).blocks == ({"type": "divider", "block_id": "n7"},)
    renderer.close()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("", "own.slack.json: that is not JSON: "),
        ('[{"type": "divider"},]', "own.slack.json: that is not JSON: "),
        ("[" * 100_000, "own.slack.json: that is not JSON: "),
        ("[]", "own.slack.json: that is not a list of blocks"),
        ('{"type": "divider"}', "own.slack.json: that is not a list of blocks"),
        ('[{"type": "divider"}, {"text": "x"}]', "own.slack.json: block 2 has no type"),
        ('["divider"]', "own.slack.json: block 1 has no type"),
        (
            '[{"type": "section", "text": {"type": "mrkdwn", "text": "{{ title }}"}}]',
            r"own.slack.json: block 1 \(section\) has an empty text",
        ),
        (
            '[{"type": "context", "elements": [{"type": "mrkdwn", "text": " "}]}]',
            r"own.slack.json: block 1 \(context\) has an empty text",
        ),
        (
            '[{"type": "section", "text": "x"}]',
            r"own.slack.json: block 1 \(section\) has a text that is not written as",
        ),
        ('[{"type": "context", "elements": ["x"]}]', r"own.slack.json: block 1 \(context\) has a text that is not"),
        (
            '[{"type": "section", "fields": 7}]',
            r"own.slack.json: block 1 \(section\) has a text that is not written as",
        ),
        ("{{ 1 / 0 }}", "own.slack.json, line 1: ZeroDivisionError"),
    ],
)
def test_blocks_that_slack_would_refuse_fail_with_the_reason(own: OwnTemplate, template: str, reason: str) -> None:
    with pytest.raises(TemplateFailed, match=reason):
        own.blocks(template)


def test_a_subject_of_ones_own_is_one_harmless_line_too(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, subject_txt="{{ groups[0].subjects[0].value.title }}\r\nBcc: eve\n=?utf-8?q?x?=")

    assert renderer.render(many(), formats=[]).subject == "The bank did not answer within 10 s Bcc: eve = ?utf-8?q?x?="
    renderer.close()


def test_names_that_are_misspelt_are_empty_in_mails_and_visible_in_previews(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("<{{ cuont }}|{{ gruops[0].label }}>")
    mail, preview = Renderer("own", folder=tmp_path), Renderer("own", folder=tmp_path, preview=True)

    assert mail.render(many(), formats=["text"]).text == "<|>"
    assert preview.render(many(), formats=["text"]).text == "<{{ cuont }}|{{ gruops }}>"
    mail.close()
    preview.close()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("one\n{% for %}", "own.txt, line 2: Expected an expression"),
        ("one\n\n{{ 1 / 0 }}", "own.txt, line 3: ZeroDivisionError"),
        ("{{ count | nofilter }}", "own.txt, line 1: No filter named 'nofilter'"),
        ("{% include 'absent.txt' %}", "TemplateNotFound"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ groups.append(1) }}", "unsafe"),
    ],
)
def test_a_template_that_is_wrong_fails_with_its_place_and_reason(own: OwnTemplate, template: str, reason: str) -> None:
    with pytest.raises(TemplateFailed, match=reason):
        own.text(template)


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"own.txt": "one\n{% for %}"}, "own.txt, line 2: Expected an expression"),
        ({"own.html": "{% if count %}"}, "own.html, line 1: Unexpected end of template"),
        ({"own.txt": "x", "own.slack.json": "[\n{{ count"}, "own.slack.json, line 2: unexpected end of template"),
        ({"own.txt": "\n\n{{ count | plurla }}"}, "own.txt, line 3: No filter named 'plurla'; did you mean plural?"),
        ({"own.txt": "{% if count is odder %}{% endif %}"}, "own.txt, line 1: No test named 'odder'"),
        ({"own.txt": "{% include 'part.txt' %}", "part.txt": "\n{% endfor %}"}, "part.txt, line 2: "),
        ({"own.html": "{% extends 'base.html' %}", "base.html": "{{"}, "base.html, line 1: "),
        ({"own.txt": "{{ " + "(" * 100_000}, "own.txt is nested too deeply"),
    ],
)
def test_a_template_that_does_not_parse_is_refused_before_there_is_a_digest(
    tmp_path: Path, files: dict[str, str], fault: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ConfigError, match=f"template: {re.escape(fault)}"):
        Renderer("own", folder=tmp_path)


def test_a_template_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(b"caf\xe9")

    with pytest.raises(ConfigError, match=r"template: own.txt is not UTF-8"):
        Renderer("own", folder=tmp_path)


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'absent.txt' ignore missing %}",
        "{% include title ~ '.txt' ignore missing %}",
        "{% include 'own.txt' %}",
        "{% extends 'builtin/default.txt' %}",
        "{{ 'a' | center(10**9) }}",
    ],
)
def test_what_only_a_digest_can_show_is_left_to_the_first_one(tmp_path: Path, template: str) -> None:
    """Templates are read and not run: no include that may be missing is searched, nothing large is computed."""
    renderer_of(tmp_path, txt=template).close()


def test_a_template_finds_no_passwords_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_PASSWORD", "hunter2")
    renderer = renderer_of(tmp_path, txt="x")
    renderer.render(many(), formats=["text"])

    environment = Path(f"/proc/{child_of(renderer)}/environ")

    if not environment.exists():
        pytest.skip("no /proc here")
    assert b"hunter2" not in environment.read_bytes()
    renderer.close()


def child_of(renderer: Renderer) -> int:
    assert renderer._children is not None
    return renderer._children._idle[0]._process.pid


def test_one_child_serves_many_mails_and_sees_files_that_change(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="before")
    renderer.render(many(), formats=["text"])
    child = child_of(renderer)

    (tmp_path / "own.txt").write_text("after")
    os.utime(tmp_path / "own.txt", (1, 1))

    assert renderer.render(many(), formats=["text"]).text == "after"
    assert child_of(renderer) == child
    renderer.close()


def test_a_child_that_died_is_replaced(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="{{ count }}")
    renderer.render(many(), formats=["text"])
    child = child_of(renderer)
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    assert renderer.render(many(), formats=["text"]).text == "73"
    renderer.close()


def test_closing_ends_the_children_and_rendering_again_starts_others(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="{{ count }}")
    renderer.render(many(), formats=["text"])
    child = child_of(renderer)

    renderer.close()

    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert renderer.render(many(), formats=["text"]).text == "73"
    renderer.close()


def test_threads_share_the_children_without_mixing_their_mails(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="{{ single.title }}")
    made: dict[int, str] = {}

    def render(number: int) -> None:
        made[number] = renderer.render(single(f"mail {number}"), formats=["text"]).text

    threads = [threading.Thread(target=render, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == {number: f"mail {number}" for number in range(20)}
    renderer.close()


def test_after_a_fork_both_processes_render_even_if_all_children_were_at_work(tmp_path: Path) -> None:
    renderer = renderer_of(tmp_path, txt="{{ single.title }}")
    renderer.render(single("before"), formats=["text"])
    answers = multiprocessing.get_context("fork").Queue()

    def render_and_answer() -> None:
        answers.put(renderer.render(single("forked"), formats=["text"]).text)
        renderer.close()

    process = multiprocessing.get_context("fork").Process(target=render_and_answer, daemon=True)
    with at_work(renderer):
        process.start()

    assert answers.get(timeout=10) == "forked"
    process.join()
    assert renderer.render(single("after"), formats=["text"]).text == "after"
    renderer.close()


@contextmanager
def at_work(renderer: Renderer) -> Iterator[None]:
    """All children busy, as if with other threads."""
    assert renderer._children is not None
    with ExitStack() as turns:
        for _ in range(MOST_CHILDREN):
            turns.enter_context(renderer._children._turns)
        yield


def test_large_values_reach_a_template_cut(own: OwnTemplate) -> None:
    value = {"long": "x" * 10_000_000, "list": list(range(100_000)), "deep": [[[[[[[[[1]]]]]]]]]}
    lines = [subject(f"s{n}", value) for n in range(90)]

    text = own.text(
        "{% set v = groups[0].subjects[-1].value %}{{ v.long | length }} {{ v.list | length }} {{ v.deep }}",
        summary(group("", *lines)),
    )

    assert text == "8000 1496 "


def test_values_of_any_shape_reach_a_template_as_plain_data() -> None:
    value = {1: (True, None, 2.5, float("nan"), 10**30), "deep": [[[[[[[1]]]]]]], "other": {1, 2}, "bad": "\ud800"}

    assert trimmed(value) == {
        "1": [True, None, 2.5, None, "a number of 100 bits"],
        "deep": [[[[["…"]]]]],
        "other": "{1, 2}",
        "bad": "\ufffd",
    }
