"""What the pages show of the service is so: examples with curl and in JavaScript run as they are written."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from digestif.client import AsyncClient, Client, ServiceEvent, ServiceStatus
from digestif.testing.servers import free_port
from tests.docs.pages import DOCS, ROOT, Block, blocks, code_names
from tests.service.programs import PATIENCE, started

pytestmark = pytest.mark.long

ADDRESS = "127.0.0.1:8321"  # as the pages have it
ANYTHING = "…"
CURL = [
    block for page in (ROOT / "README.md", DOCS / "how-to" / "serve.md") for block in blocks(page.read_text("utf-8"))
]


def curl_examples() -> list[tuple[Block, str | None]]:
    """The examples, and the answers that are shown below them."""
    followers = [*CURL[1:], None]
    pairs = zip(CURL, followers, strict=True)
    return [
        (block, each.text if each and each.language == "json" else None)
        for block, each in pairs
        if block.mark == "curl"
    ]


def is_like(shown: Any, given: Any) -> bool:
    """True if an answer is as it is shown, with anything for `…`."""
    if shown == ANYTHING:
        return True
    if isinstance(shown, dict):
        return (
            isinstance(given, dict) and shown.keys() == given.keys() and all(is_like(shown[x], given[x]) for x in shown)
        )
    if isinstance(shown, list):
        return isinstance(given, list) and len(shown) == len(given) and all(map(is_like, shown, given))
    return bool(shown == given)


def test_the_examples_with_curl_run_as_they_are_written(tmp_path: Path) -> None:
    examples = curl_examples()
    assert len(examples) == 3
    with started(tmp_path, "--no-worker") as (_, client):
        for block, shown in examples:
            text = block.text.replace(ADDRESS, f"127.0.0.1:{client.port}")
            done = subprocess.run(["sh", "-e", "-c", text], capture_output=True, text=True, timeout=PATIENCE)
            assert (done.returncode, done.stderr) == (0, ""), text
            if shown is not None:
                assert is_like(json.loads(shown), json.loads(done.stdout)), done.stdout
        assert client.get("/v1/ledger").json()["accepted"] == 3


def test_the_channel_that_the_page_tries_is_in_the_file_that_init_writes(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "serve.md").read_text("utf-8")
    [command] = re.findall(r"`(digestif send-test [^`]+)`", page)

    for words in (["digestif", "init"], command.split()):
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)

    assert list((tmp_path / "outbox").iterdir())


def test_the_programs_in_javascript_add_and_receive(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    env = {"WEBHOOK_SECRET": "whsec_" + "c2VjcmV0" * 4, "PATH": "/usr/bin:/bin"}
    page = blocks((DOCS / "how-to" / "other-languages.md").read_text("utf-8"))
    files = {block.mark.removeprefix("file "): block.text for block in page if block.mark.startswith("file ")}
    port = free_port()
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("8090", str(port)))
    receiver = subprocess.Popen([node, "receiver.mjs"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "listening\n"
        with started(tmp_path, env=env) as (_, client):
            added = tmp_path / "add.mjs"
            added.write_text(added.read_text().replace(ADDRESS, f"127.0.0.1:{client.port}"))
            done = subprocess.run(
                [node, "add.mjs"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.stdout.startswith('202 {"accepted":2,'), done.stderr
            assert receiver.stdout.readline().startswith("hook:builds: ")
    finally:
        receiver.kill()
        receiver.wait()
        if receiver.stdout is not None:
            receiver.stdout.close()


def test_every_verb_and_field_of_the_client_is_explained() -> None:
    explained = code_names((DOCS / "reference" / "client.md").read_text("utf-8"))
    verbs = [name for kind in (Client, AsyncClient) for name in dir(kind) if not name.startswith("_")]
    names = [*verbs, *ServiceStatus.__dataclass_fields__, *ServiceEvent._fields, "Client", "AsyncClient"]

    assert [name for name in names if name not in explained and f"{name}()" not in explained] == []
