"""The tutorial in a fresh environment, installed from this tree exactly as the page says. Needs a package index."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs import terminals
from tests.docs.pages import ROOT
from tests.docs.terminals import Walk
from tests.docs.test_tutorial import TUTORIAL, environment, with_a_port_of_its_own


def test_a_newcomer_comes_from_an_empty_home_to_the_end_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "PATIENCE", 600.0)  # installing takes a while
    outside = [folder for folder in os.environ["PATH"].split(":") if not folder.startswith(str(ROOT))]
    settings = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "PYENV_", "SSL_"))}

    with closing(Walk({**settings, **environment(tmp_path), "PATH": ":".join(outside)}, start=ROOT)) as walk:
        walk.follow(with_a_port_of_its_own(TUTORIAL), installs=True)

    assert not (tmp_path / "tutorial").exists()
