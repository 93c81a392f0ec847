"""How long `digestif serve` takes in an empty folder, from its start until its link answers."""

import subprocess
import sys
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from urllib.request import urlopen

STARTS = 5


def seconds_to_start() -> float:
    """The median of some starts."""
    return median(_start() for _ in range(STARTS))


def _start() -> float:
    with TemporaryDirectory(prefix="digestif-") as folder:
        began = monotonic()
        command = [sys.executable, "-m", "digestif", "serve", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            try:
                assert run.stdout is not None
                link = run.stdout.readline().split()[-1]
                with urlopen(link, timeout=10) as page:
                    page.read()
                return monotonic() - began
            finally:
                run.terminate()
