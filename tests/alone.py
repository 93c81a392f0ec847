"""Runs a function of a test in a new interpreter, with one thread and no test runner: it may fork or die."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAME = "tests.alone"


def alone(program: Callable[..., Any], *arguments: Any, under: Sequence[str] = (), timeout: float = 90) -> Any:
    """Call a function of a module in a new interpreter; arguments and answer pass as JSON.

    `under` is a command that starts the interpreter, such as one that limits its memory.
    """
    call = [program.__module__, program.__name__, json.dumps(arguments)]
    command = [*under, sys.executable, "-m", NAME, *call]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    sys.stderr.write(done.stderr)
    assert done.returncode == 0, f"{program.__name__} ended with {done.returncode}:\n{done.stderr}"
    return json.loads(done.stdout)


def _answer(module: str, name: str, arguments: str) -> None:
    sys.stdout.write(json.dumps(getattr(import_module(module), name)(*json.loads(arguments))))


if __name__ == "__main__":
    _answer(*sys.argv[1:])
