"""What an extra installs may be missing: then the error says what to install, wherever it is noticed."""

import subprocess
import sys

import pytest

from digestif.exports import explain_missing

pytestmark = pytest.mark.long

ALL_CHANNELS = [
    ("smtp://localhost?from=a@b.c", "aiosmtplib", "mail"),
    ("smtps://localhost?from=a@b.c", "aiosmtplib", "mail"),
    ("webhook+https://example.org/hook", "aiohttp", "webhooks"),
    ("slack://hooks.slack.com/services/a/b/c", "aiohttp", "webhooks"),
    ("apprise+json://example.org", "apprise", "apprise"),
]
STORES = [
    ("redis://localhost", "redis", "redis"),
    ("redis://localhost", "hiredis", "redis"),
    ("postgresql://localhost", "psycopg", "postgres"),
    ("postgresql://localhost", "psycopg_pool", "postgres"),
]
MODULES = [
    ("digestif.testing.servers", "redis", "redis"),
    ("digestif.testing.servers", "hiredis", "redis"),
    ("digestif.testing.postgres", "psycopg", "postgres"),
    ("digestif.channels.smtp", "aiosmtplib", "mail"),
    ("digestif.channels.webhook", "aiohttp", "webhooks"),
    ("digestif.channels.slack", "aiohttp", "webhooks"),
    ("digestif.channels.apprise_channel", "apprise", "apprise"),
    ("digestif.transfer.origin", "redis", "redis"),
    ("digestif.client.aio", "aiohttp", "client"),
    ("digestif.integrations.celery", "celery", "celery"),
    ("digestif.integrations.prometheus", "prometheus_client", "prometheus"),
]


def last_line(program: str, *, without: str) -> str:
    """The last line that a program writes to stderr where a module is not installed."""
    hidden = f"import sys; sys.modules[{without!r}] = None\n"
    done = subprocess.run([sys.executable, "-c", hidden + program], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("dsn", "missing", "extra"), ALL_CHANNELS)
def test_a_channel_says_what_to_install(dsn: str, missing: str, extra: str) -> None:
    said = last_line(f"from digestif.channels import open_channel\nopen_channel({dsn!r})", without=missing)

    assert said.startswith("digestif.errors.ConfigError: channel: ")
    assert said.endswith(explain_missing(missing, extra=extra))


@pytest.mark.parametrize(("dsn", "missing", "extra"), STORES)
def test_a_store_says_what_to_install(dsn: str, missing: str, extra: str) -> None:
    said = last_line(f"from digestif import Digests\nDigests({dsn!r})", without=missing)

    assert said.startswith("digestif.errors.ConfigError: store: ")
    assert said.endswith(explain_missing(missing, extra=extra))


@pytest.mark.parametrize(("module", "missing", "extra"), MODULES)
def test_a_module_says_what_to_install(module: str, missing: str, extra: str) -> None:
    said = last_line(f"import {module}", without=missing)

    assert said.startswith("ModuleNotFoundError: ")
    assert said.endswith(explain_missing(missing, extra=extra))


def test_a_move_from_the_origin_says_what_to_install() -> None:
    words = ["digestif", "move", "redis://localhost", "sqlite:///x.db", "--origin"]
    command = f"sys.argv = {words}\nfrom digestif.cli import main\nmain()"

    said = last_line(command, without="redis")

    assert said.endswith(f"move --origin {explain_missing('redis', extra='redis')}")
