"""CONTRIBUTING.md leads a newcomer to the right place: what it names exists, and no room is left out."""

import re
import subprocess

from tests.docs.pages import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SOURCE = ROOT / "src" / "digestif"
BASES = (ROOT, SOURCE, SOURCE / "stores" / "redis")  # what paths begin from


def test_every_room_is_in_the_tree() -> None:
    tree = PAGE.partition("src/digestif/\n")[2].partition("```")[0]
    rooms = [path for path in SOURCE.iterdir() if not path.name.startswith(("_", "py.typed"))]

    assert [path.name for path in rooms if f"{path.name}{'/' * path.is_dir()} " not in tree] == []


def test_every_path_leads_somewhere() -> None:
    paths = set(re.findall(r"`([a-z]\w*/[\w./]*)`", PAGE))

    assert "core/machine.py" in paths
    assert [path for path in paths if not any((base / path).exists() for base in BASES)] == []


def test_every_command_of_dev_is_explained() -> None:
    said = subprocess.run([ROOT / "dev", "help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z]+)(?: \[\w+\])? {2,}", said, re.MULTILINE)

    assert {"test", "bench", "docs"} <= set(commands)
    assert [command for command in commands if f"`./dev {command}`" not in PAGE] == []


def test_every_change_is_tested_with_the_lowest_versions_too() -> None:
    choice = (ROOT / "dev").read_text("utf-8").partition("\nlowest() {")[2].partition("\n}")[0]
    paths = re.findall(r"\btests/[\w./]+", choice)

    assert "./dev lowest" in (ROOT / ".ci" / "run").read_text("utf-8")
    assert "tests/channels" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_glossary_has_at_most_forty_words() -> None:
    section = (ROOT / "docs" / "internals.md").read_text("utf-8").partition("## Words")[2].partition("\n## ")[0]
    words = [word for word in re.findall(r"^\| ([\w -]+) \|", section, re.MULTILINE) if word != "word"]

    assert 30 < len(words) == len(set(words)) <= 40
