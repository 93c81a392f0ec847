"""Lints the scripts as the server gets them: `python -m tests.stores.redis.luacheck`."""

import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from digestif.stores.redis.client.scripts import load

GLOBALS = ["redis", "cmsgpack", "struct", "KEYS", "ARGV"]
# 211: an include may bring more than a script needs. 431: rules take `now` as an argument, though scripts have one too.
IGNORED = ["211", "431"]


def main() -> int:
    names = [file.name.removesuffix(".lua") for file in files("digestif.stores.redis").joinpath("lua").iterdir()]
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(set(names) - {"include"}):
            text = load(name).text.replace("#!lua", "-- #!lua", 1)
            Path(folder, f"{name}.lua").write_text(text, encoding="utf-8")
        options = ["--std", "lua51", "--quiet", "--no-color", "--max-line-length", "120"]
        command = ["luacheck", *options, "--globals", *GLOBALS, "--ignore", *IGNORED, "--", folder]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
