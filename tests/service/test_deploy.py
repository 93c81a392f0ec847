"""The files in deploy/."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from digestif.service.settings import LISTEN, WorkerSettings
from tests.docs.pages import ROOT

TRUE = os.path.realpath(str(shutil.which("true")))  # systemd takes no blanks, which links to it may have
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "digestif.service").read_text("utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a program that is there: systemd looks for it."""
    unit = tmp_path / "digestif.service"
    unit.write_text(UNIT.replace("/opt/digestif/bin/digestif", TRUE))

    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)

    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_unit_waits_longer_than_deliveries_may_take() -> None:
    [stop] = [line.partition("=")[2] for line in UNIT.splitlines() if line.startswith("TimeoutStopSec=")]

    assert int(stop) > WorkerSettings().grace


def test_the_page_about_the_service_shows_the_configuration_of_nginx() -> None:
    page = (ROOT / "docs" / "how-to" / "serve.md").read_text("utf-8")

    assert (DEPLOY / "nginx.conf").read_text("utf-8") in page


def test_containers_use_the_port_of_the_service() -> None:
    port = LISTEN.rpartition(":")[2]
    for name in ("Dockerfile", "compose.yaml"):
        assert f":{port}" in (DEPLOY / name).read_text("utf-8")
