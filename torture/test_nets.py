"""The nets work: each fault, planted in a process of its own, is found by the nets that are named for it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.nets.faults import FAULTS
from tests.nets.planting import Fault

TESTS = Path(__file__).parents[1] / "tests"
THROWN = TESTS / "nets" / "thrown"
NETS = {"directed": THROWN / "directed.py", "model": THROWN / "model.py", "vectors": TESTS / "core" / "test_machine.py"}
PATIENCE = 100  # seconds until a run counts as stuck

FAILED = re.compile(r"^FAILED .*?(\w+\.py)::(?:\w+::)?(test_\w+).*? - (.*)$", re.MULTILINE)
# A statement of the net did not hold, or a call was refused; anything else is a fault that was written badly.
BECAUSE = ("AssertionError", "Failed: DID NOT RAISE", "digestif.errors.")


class Find(NamedTuple):
    """What a net found."""

    net: str
    sentence: str
    reason: str


class Run(NamedTuple):
    """How the nets ended."""

    status: int
    finds: list[Find]
    output: str


@pytest.mark.parametrize("options", [[], ["--soundly"]], ids=["as it is", "with functions that were exchanged"])
def test_the_nets_find_nothing_in_the_sound_package(tmp_path: Path, options: list[str]) -> None:
    run = throw(NETS, tmp_path, sentences={fault.directed for fault in FAULTS}, options=options)

    assert (run.status, run.finds) == (pytest.ExitCode.OK, []), run.output


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_is_found_by_the_nets_that_are_named_for_it(tmp_path: Path, fault: Fault) -> None:
    run = throw(fault.nets, tmp_path, sentences={fault.directed}, options=[f"--fault={fault.says}"])

    assert run.status == pytest.ExitCode.TESTS_FAILED, run.output
    assert {find.net for find in run.finds} == set(fault.nets), run.output
    assert [find for find in run.finds if not find.reason.startswith(BECAUSE)] == []


def throw(nets: Iterable[str], folder: Path, *, sentences: Iterable[str], options: Iterable[str]) -> Run:
    """Run the nets in a process of their own, which a fault may hang, and which nothing but the options changes."""
    form = ["-q", "--tb=short", "--assert=plain"]  # rewriting the suite's assertions takes longer than the rest
    places = ["-c", os.devnull, "--rootdir", str(TESTS), "--confcutdir", str(THROWN)]
    plugins = [f"-p{name}" for name in ("no:cacheprovider", "digestif.testing.plugin", "planted")]
    wanted = [f"--sentence={sentence}" for sentence in sorted(sentences)]
    files = [str(NETS[net]) for net in nets]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *form, *places, *plugins, *wanted, *options, *files],
        cwd=folder,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join([str(THROWN), str(TESTS.parent)]),
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
