"""The nets work: each fault, planted in a copy of the package, is found by the nets that are named for it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import digestif
from tests.nets.faults import FAULTS, Fault

PACKAGE = Path(digestif.__file__).parent
TESTS = Path(__file__).parents[1]
THROWN = TESTS / "nets" / "thrown"
NETS = {"directed": THROWN / "directed.py", "model": THROWN / "model.py", "vectors": TESTS / "core" / "test_machine.py"}
ONLY_LARGE = ("hundred_thousand", "fifty_thousand")  # these show that size is no trouble, and take their time
PATIENCE = 100  # seconds until a run counts as stuck

FAILED = re.compile(
    r"^FAILED \S*?(?P<file>\w+\.py)::(?:\w+::)?(?P<sentence>test_\w+).*? - (?P<reason>.*)$", re.MULTILINE
)
# A statement of the net did not hold, or a call was refused; anything else is a fault that was planted badly.
BECAUSE = ("AssertionError", "assert ", "Failed: DID NOT RAISE", "digestif.errors.")


class Run(NamedTuple):
    """How the nets ended on one copy, and what each found first."""

    status: int
    found: dict[str, tuple[str, str]]  # by net: the sentence and the reason
    output: str


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, with the times of its files, so that their bytecode serves too."""
    shutil.copytree(PACKAGE, tmp_path / "digestif")
    return tmp_path


def test_the_nets_find_nothing_in_an_unchanged_copy(copy: Path) -> None:
    run = throw(copy, list(NETS))

    assert (run.status, run.found) == (pytest.ExitCode.OK, {}), run.output


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_is_found_by_the_nets_that_are_named_for_it(copy: Path, fault: Fault) -> None:
    plant(fault, copy)

    run = throw(copy, fault.nets, first=fault.directed)

    assert run.status == pytest.ExitCode.TESTS_FAILED, run.output
    assert list(run.found) == fault.nets, run.output
    assert run.found["directed"][0] == fault.directed
    assert all(reason.startswith(BECAUSE) for _, reason in run.found.values()), run.output


def plant(fault: Fault, copy: Path) -> None:
    file = copy / "digestif" / fault.file
    text = file.read_text("utf-8")
    times = text.count(fault.old)
    assert times == 1, (
        f"{fault.file} has this text {times} times; the code has moved, let the fault follow:\n{fault.old}"
    )
    file.write_text(text.replace(fault.old, fault.new), "utf-8")


def throw(copy: Path, nets: list[str], *, first: str | None = None) -> Run:
    """Run the nets on a copy, in a process of its own that sees no other package of that name."""
    options = ["-q", "--tb=short", "-c", os.devnull, "--rootdir", str(TESTS), "--confcutdir", str(THROWN)]
    plugins = ["-p", "no:cacheprovider", "-p", "digestif.testing.plugin", "-p", "one_each"]
    small = ["-k", " and ".join(f"not {words}" for words in ONLY_LARGE)]
    begin = [] if first is None else ["--first", first]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugins, *small, *begin, *(str(NETS[net]) for net in nets)],
        cwd=copy,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join([str(copy), str(THROWN)]),
            "PYTHONHASHSEED": "0",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "300",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    names = {path.name: net for net, path in NETS.items()}
    found = {names[match["file"]]: (match["sentence"], match["reason"]) for match in FAILED.finditer(done.stdout)}
    return Run(done.returncode, found, done.stdout)
