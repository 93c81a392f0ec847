"""The Django project that tests share."""

from collections.abc import Iterator

import pytest

from tests.integrations.projects import Project


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project("django", tmp_path_factory.mktemp("project"), DJANGO_SETTINGS_MODULE="mysite.live")
    project.make()
    yield project
    project.close()


@pytest.fixture
def project(made: Project) -> Iterator[Project]:
    """Without digests and mails."""
    yield made
    for pattern in ("digests.db*", "mails/*"):
        for path in made.folder.glob(pattern):
            path.unlink()
