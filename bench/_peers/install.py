"""Brings the other systems by name from their registries, into a folder of the user's cache, once."""

import json
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NODE = Path(__file__).parent / "node"
LONGEST = 600  # seconds for an installation
NODE_MAJOR = 24  # some of the packages need more than a stable distribution has


class Missing(Exception):
    """A system that can't be installed here."""


class Runtime(NamedTuple):
    """How programs of a system are run, and which versions they use."""

    command: list[str]
    environment: dict[str, str]
    versions: dict[str, str]
    folder: Path = NODE  # of programs for Node.js


def own() -> Runtime:
    """Our own environment."""
    return Runtime([sys.executable, "-m"], _search_path(), {"digestif": metadata.version("digestif")})


def from_pip(*packages: str) -> Runtime:
    """An environment with these packages."""
    folder = _cache() / f"pip-{packages[0].partition('[')[0]}-{platform.python_version()}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *packages])
        (folder / "complete").touch()
    listed = json.loads(_run([str(python), "-m", "pip", "list", "--format", "json"]))
    wanted = {package.partition("[")[0].lower() for package in packages}
    versions = {one["name"]: one["version"] for one in listed if one["name"].lower() in wanted}
    return Runtime([str(python), "-m"], _search_path(), versions)


def from_npm(package: str, *versions: str, beside: tuple[str, ...] = ()) -> Runtime:
    """A package for Node.js, in the first of these versions that can be installed, with what it needs beside it."""
    folder, node = _cache() / f"npm-{package}", _node()
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _npm(folder, *[(f"{package}@{version}", *beside) for version in versions])
        (folder / "complete").touch()
    for program in NODE.glob("*.mjs"):
        shutil.copy(program, folder)  # imports of packages are looked for beside the program
    about = json.loads((folder / "node_modules" / package / "package.json").read_text())
    found = {package: about["version"], "Node.js": _run([str(node), "--version"]).strip().removeprefix("v")}
    return Runtime([str(node)], {}, found, folder)


def from_apt(program: str) -> Runtime:
    if shutil.which(program) is None and shutil.which("apt-get") is not None:
        subprocess.run(
            ["apt-get", "install", "-y", "--no-install-recommends", program], capture_output=True, check=False
        )
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed, and apt-get can't install it here")
    return Runtime([sys.executable, "-m"], _search_path(), {})


@cache
def _node() -> Path:
    """The path of a recent Node.js: the registry has it as a package of its own for each platform."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    package = f"node-{sys.platform}-{machine}"
    folder = _cache() / f"npm-{package}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _npm(folder, (f"{package}@{NODE_MAJOR}",))
        (folder / "complete").touch()
    return folder / "node_modules" / package / "bin" / "node"


def _npm(folder: Path, *choices: tuple[str, ...]) -> None:
    """Install the first of the choices that can be."""
    if shutil.which("npm") is None:
        raise Missing("npm is not installed")
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}')
    for number, choice in enumerate(choices, 1):
        try:
            _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder), *choice])
            return
        except Missing:
            if number == len(choices):
                raise


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST)
    except subprocess.CalledProcessError as error:
        raise Missing(f"{' '.join(command[:4])} … failed: {(error.stderr or error.stdout).strip()[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    return done.stdout


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "digestif-peers"


def _search_path() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT)}
