"""The project of the page about Django, made by `startproject`, and the fixture that gives it to tests."""

from collections.abc import Iterator
from email import message_from_string, policy
from email.message import EmailMessage

import pytest

from tests.integrations.recipes import Recipe

LIVE = """
from mysite.settings import *

DEBUG = False
ALLOWED_HOSTS = ["*"]
DEFAULT_FROM_EMAIL = "shop@example.org"
DIGESTIF["EMAIL"]["BACKEND"] = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = BASE_DIR / "mails"
"""
SETUP = "import django; django.setup(); import sys, json\n"
BOUNDARY = "-" * 79 + "\n"  # between mails in a file


class Project(Recipe):
    """The project, with settings that write mails to a folder."""

    def make(self) -> None:
        self.run("-m", "django", "startproject", "mysite", ".")
        self.run("manage.py", "startapp", "shop", DJANGO_SETTINGS_MODULE="mysite.settings")
        self.write()
        (self.folder / "mysite" / "live.py").write_text(LIVE)
        self.manage("makemigrations", "shop")
        self.manage("migrate", "-v", "0")

    def manage(self, *arguments: str, code: int = 0, **environment: str) -> str:
        return self.run("manage.py", *arguments, code=code, **environment)

    def script(self, text: str, **environment: str) -> str:
        return self.run("-c", SETUP + text, code=0, **environment)

    def mails(self) -> list[EmailMessage]:
        """What went out, in the order of time."""
        files = sorted((self.folder / "mails").glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
        texts = [text for file in files for text in file.read_text("utf-8").split(BOUNDARY) if text.strip()]
        return [message_from_string(text, policy=policy.default) for text in texts]

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project("django", tmp_path_factory.mktemp("project"), DJANGO_SETTINGS_MODULE="mysite.live")
    project.make()
    return project


@pytest.fixture
def project(made: Project) -> Iterator[Project]:
    """Without digests and mails."""
    yield made
    for pattern in ("digests.db*", "mails/*"):
        for path in made.folder.glob(pattern):
            path.unlink()
