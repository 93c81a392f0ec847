"""The wheel, in an empty environment with nothing but the dependencies that it declares, does what the docs promise."""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint, PathDistribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import ADDRESS, blocks
from tests.servers import empty_server

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
SUITE = """
import pytest
from digestif.stores import MemoryStore
from digestif.testing import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def make_store(self):
        return MemoryStore

    @pytest.fixture
    def store(self, make_store):
        return make_store()
"""


class Environment:
    """A virtual environment without pip. Its packages are links to those of this one."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self._python = folder / "bin" / "python"
        self.packages = next(folder.glob("lib/python*/site-packages"))

    def link(self, requirements: Iterable[Requirement]) -> None:
        for package in closure(requirements):
            for part in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
                self.link_part(Path(str(package.locate_file(part))))

    def link_part(self, part: Path) -> None:
        link = self.packages / part.name
        if not link.exists():
            link.symlink_to(part)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._python, "-I", *arguments], cwd=self.packages, env={}, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def closure(requirements: Iterable[Requirement]) -> Iterator[Distribution]:
    """The installed packages that are required, and what they require in turn."""
    known: set[str] = set()
    wanted = list(requirements)
    while wanted:
        requirement = wanted.pop()
        if requirement.name not in known:
            known.add(requirement.name)
            package = distribution(requirement.name)
            for extra in ("", *requirement.extras):
                wanted += required(package, extra=extra)
            yield package


def required(package: Distribution, *, extra: str) -> list[Requirement]:
    found = map(Requirement, package.requires or [])
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the wheel. All tests share it, so that its modules are compiled once."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    with ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "files")
    return folder / "files"


@pytest.fixture
def environment(unpacked: Path, tmp_path: Path) -> Environment:
    """With the wheel installed, as pip would, but for the scripts."""
    environment = Environment(tmp_path / "environment")
    for part in unpacked.iterdir():
        environment.link_part(part)
    return environment


@pytest.fixture
def installed(environment: Environment) -> Distribution:
    return PathDistribution(next(environment.packages.glob("digestif-*.dist-info")))


def test_the_demo_needs_the_core_dependencies_alone(environment: Environment, installed: Distribution) -> None:
    environment.link(required(installed, extra=""))

    figures = json.loads(environment.run("-m", "digestif", "demo", "--seconds", "1", "--json"))

    assert figures["good"] is True
    assert figures["events"] > figures["messages"] > 0


def test_the_memory_store_passes_the_conformance_suite(environment: Environment, installed: Distribution) -> None:
    """Sentences about records here; torture/test_wheel.py has all of them."""
    assert conforming(environment, installed, "not async and record") > 100


def conforming(environment: Environment, installed: Distribution, chosen: str) -> int:
    """How many of the chosen sentences pass; none may fail."""
    environment.link(required(installed, extra="testing"))
    suite = environment.packages.parent / "test_memory_store.py"
    suite.write_text(SUITE, "utf-8")

    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
    )  # to rewrite all assertions takes longer than to run them
    said = environment.run("-m", "pytest", *options, "-k", chosen, str(suite))

    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    return int(passed[1])


# What each extra is for. Importing it must need nothing beyond the extra.
USES = {
    "apprise": "digestif.channels.apprise_channel",
    "celery": "digestif.integrations.celery",
    "client": "digestif.client; digestif.client.AsyncClient",
    "django": "digestif.integrations.django",
    "mail": "digestif.channels.smtp, css_inline",
    "postgres": "digestif.stores.postgres.store, digestif.testing.postgres",
    "prometheus": "digestif.integrations.prometheus",
    "redis": "digestif.stores.redis.store, digestif.testing.servers, digestif.transfer.origin",
    "service": "digestif.service.runtime",
    "testing": "digestif.testing.conformance, digestif.testing.stateful, digestif.testing.plugin",
    "webhooks": "digestif.channels.webhook, digestif.channels.slack",
    "zstd": "digestif.stores.codec; digestif.stores.codec.Sealer('zstd')",
}


def test_every_extra_is_tried(installed: Distribution) -> None:
    extras = set(installed.metadata.get_all("Provides-Extra") or [])

    assert extras - {"dev", "docs"} == USES.keys()  # these are for this repository


@pytest.mark.parametrize("extra", USES)
def test_an_extra_installs_all_that_its_modules_import(
    environment: Environment, installed: Distribution, extra: str
) -> None:
    environment.link(required(installed, extra=extra))

    environment.run("-W", "ignore", "-c", f"import {USES[extra]}")


def test_the_page_about_celery_works_with_what_it_says_to_install(
    environment: Environment, installed: Distribution
) -> None:
    page = (ROOT / "docs/how-to/celery.md").read_text("utf-8")
    extras = re.findall(r"pip install '\.\[([\w,]+)\]'", page)[0].split(",")
    for extra in extras:
        environment.link(required(installed, extra=extra))
    program = "".join(block.text for block in blocks(page) if block.language == "python")
    program = f"import sys; sys.stderr = sys.stdout\n{program}"  # where a dispatch that fails is logged

    said = environment.run("-c", program.replace(ADDRESS, empty_server().url.removeprefix("redis://")))

    assert said == "mail:ada ['Build 8 failed', 'Build 7 failed']\n"


def test_the_wheel_names_its_programs(environment: Environment, installed: Distribution) -> None:
    commands: Iterable[EntryPoint] = installed.entry_points

    assert {(each.group, each.name, each.value) for each in commands} == {
        ("console_scripts", "digestif", "digestif.cli:main"),
        ("pytest11", "digestif", "digestif.testing.plugin"),
    }
    assert (environment.packages / "digestif" / "py.typed").is_file()
