"""The tutorial, followed block by block by a reader with an empty home and three terminals."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from digestif.testing.servers import free_port
from tests.docs.pages import DOCS, blocks
from tests.docs.terminals import Walk

pytestmark = pytest.mark.long

TUTORIAL = (DOCS / "tutorial.md").read_text("utf-8")
PORT = "2525"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the folder that the page makes, and the programs of this environment instead of those that it installs."""
    activate = tmp_path / "tutorial" / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH='{Path(sys.executable).parent}':$PATH\n")
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    """What little a fresh login has."""
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TMPDIR": str(home),
        "TZ": "UTC",
    }


def with_a_port_of_its_own(page: str) -> str:
    port = str(free_port())
    started = re.compile(r"^digestif mailbox(?=$| --refuse)", re.MULTILINE)
    return started.sub(f"digestif mailbox --port {port}", page).replace(PORT, port)


@pytest.mark.timeout(240)
def test_every_block_can_be_pasted_and_shows_what_the_page_says(home: Path) -> None:
    with closing(Walk(environment(home), start=home)) as walk:
        walk.follow(with_a_port_of_its_own(TUTORIAL), installs=False)


def test_an_import_of_the_program_makes_no_store(tmp_path: Path) -> None:
    [program] = [block.text for block in blocks(TUTORIAL) if block.text.startswith("cat > builds.py")]
    (tmp_path / "builds.py").write_text(program.partition("\n")[2].rpartition("END")[0])

    subprocess.run([sys.executable, "-B", "-c", "import builds"], cwd=tmp_path, check=True, timeout=60)

    assert [file.name for file in tmp_path.iterdir()] == ["builds.py"]


def test_no_block_is_left_out() -> None:
    """What is shown as text belongs to a block above it, or to a terminal."""
    found = blocks(TUTORIAL)
    followed = [above.output for above in found if above.output is not None]

    for block in found:
        assert block.language in ("sh", "python", "text"), block.line
        assert block.mark.partition(":")[0] in ("", "install", "terminal", "shown in", "Ctrl-C in"), block.line
        assert block.language != "text" or block.mark or block.text in followed, block.line
