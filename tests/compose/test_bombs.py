"""Templates that would use up memory or time: they are stopped, with a reason, and the worker goes on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif.compose.renderer import Renderer, TemplateFailed
from tests.compose.bombs import BOMBS, bomb_renderer
from tests.compose.samples import many

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renderer]:
    renderer = bomb_renderer(tmp_path_factory.mktemp("templates"))
    yield renderer
    renderer.close()


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_stopped_and_the_next_mail_is_rendered(renderer: Renderer, name: str) -> None:
    with pytest.raises(TemplateFailed, match=BOMBS[name][1]) as failed:
        renderer.render(many(), formats=["text"], title=name)

    assert failed.value.reason == str(failed.value)
    assert renderer.render(many(), formats=["text"]).text == "73 events"


def test_no_bomb_takes_more_than_a_hundred_megabytes(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.compose.bombs", str(tmp_path)]

    peak = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert 40_000_000 < 1024 * int(peak) < 100_000_000
