"""Templates that would never end are stopped within two seconds."""

from pathlib import Path

import pytest

from digestif.clock import monotonic
from digestif.compose.renderer import TemplateFailed
from tests.compose.bombs import BOMBS, bomb_renderer
from tests.compose.samples import many

ATTEMPTS = 3  # other programs may slow the machine down


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_stopped_within_two_seconds(tmp_path: Path, name: str) -> None:
    renderer = bomb_renderer(tmp_path)
    for _ in range(ATTEMPTS):
        started = monotonic()
        with pytest.raises(TemplateFailed, match=BOMBS[name][1]):
            renderer.render(many(), formats=["text"], title=name)
        took = monotonic() - started
        if took < 2:
            break
    renderer.close()

    assert took < 2
