"""schemathesis against a running service, by the service's own description, with all of its checks but one."""

import os
import subprocess
import sys
from pathlib import Path

from digestif.service.settings import Limits
from tests.service.harness import serving, settings_with, token_of

ROOT = Path(__file__).parents[2]
SETTINGS = Path(__file__).parent / "schemathesis.toml"
# Every name is a timeline with a policy: one that was deleted is idle, and has the policy of its route, not a 404.
NO_SUCH_RULE = "use_after_free"
ENDLESS = "/v1/events"  # answers only end with their connection


def attack(folder: Path, *options: str, store: str = "memory://", seconds: float = 100) -> str:
    """Attack a service; what schemathesis says, if it found something wrong."""
    text, token = token_of("attacker")
    with serving(store, settings_with(token, limits=Limits(items=50))) as (client, _):
        command = [
            *(
                sys.executable,
                "-m",
                "schemathesis.cli",
                "--config-file",
                str(SETTINGS),
                "run",
                f"{client.url}/v1/openapi.json",
            ),
            *("--header", f"Authorization: Bearer {text}", "--exclude-path", ENDLESS, "--checks", "all"),
            *("--exclude-checks", NO_SUCH_RULE),
            *("--request-timeout", "20", "--no-color", "--suppress-health-check", "all", *options),
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    return "" if done.returncode == 0 else done.stdout + done.stderr
