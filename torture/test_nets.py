"""The nets work: each fault, planted in a copy of the package, is found by the nets that are named for it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

import digestif
from tests.nets.faults import FAULTS, Fault

PACKAGE = Path(digestif.__file__).parent
TESTS = Path(__file__).parents[1] / "tests"
THROWN = TESTS / "nets" / "thrown"
NETS = {"directed": THROWN / "directed.py", "model": THROWN / "model.py", "vectors": TESTS / "core" / "test_machine.py"}
PATIENCE = 100  # seconds until a run counts as stuck

FAILED = re.compile(r"^FAILED .*?(\w+\.py)::(?:\w+::)?(test_\w+).*? - (.*)$", re.MULTILINE)
# A statement of the net did not hold, or a call was refused; anything else is a fault that was planted badly.
BECAUSE = ("AssertionError", "Failed: DID NOT RAISE", "digestif.errors.")


class Find(NamedTuple):
    """What a net found."""

    net: str
    sentence: str
    reason: str


class Run(NamedTuple):
    """How the nets ended on one copy."""

    status: int
    finds: list[Find]
    output: str


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, with the times of its files, so that their bytecode serves too."""
    shutil.copytree(PACKAGE, tmp_path / "digestif")
    return tmp_path


def test_the_nets_find_nothing_in_an_unchanged_copy(copy: Path) -> None:
    run = throw(NETS, copy, sentences={fault.directed for fault in FAULTS})

    assert (run.status, run.finds) == (pytest.ExitCode.OK, []), run.output


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_is_found_by_the_nets_that_are_named_for_it(copy: Path, fault: Fault) -> None:
    plant(fault, copy)

    run = throw(fault.nets, copy, sentences={fault.directed})

    assert run.status == pytest.ExitCode.TESTS_FAILED, run.output
    assert {find.net for find in run.finds} == set(fault.nets), run.output
    assert [find for find in run.finds if not find.reason.startswith(BECAUSE)] == []


def plant(fault: Fault, copy: Path) -> None:
    file = copy / "digestif" / fault.file
    text = file.read_text("utf-8")
    times = text.count(fault.old)
    assert times == 1, f"{fault.file} has this text {times} times; the code moved, let the fault follow:\n{fault.old}"
    file.write_text(text.replace(fault.old, fault.new), "utf-8")


def throw(nets: Iterable[str], copy: Path, *, sentences: Iterable[str]) -> Run:
    """Run the nets on a copy, in a process of its own that sees no other package of that name."""
    options = ["-q", "--tb=short", "--assert=plain"]  # rewriting the suite's assertions takes longer than the rest
    places = ["-c", os.devnull, "--rootdir", str(TESTS), "--confcutdir", str(THROWN)]
    plugins = [f"-p{name}" for name in ("no:cacheprovider", "digestif.testing.plugin", "on_a_copy")]
    wanted = [f"--sentence={sentence}" for sentence in sorted(sentences)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *places, *plugins, *wanted, *(str(NETS[net]) for net in nets)],
        cwd=copy,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join([str(copy), str(THROWN), str(TESTS.parent)]),
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
    finds = [Find(names[file], sentence, reason) for file, sentence, reason in FAILED.findall(done.stdout)]
    return Run(done.returncode, finds, done.stdout)
