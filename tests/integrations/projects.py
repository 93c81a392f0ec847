"""The project of the page about Django, made by `startproject`."""

import json
import subprocess
import sys
from email import message_from_string, policy
from email.message import EmailMessage
from functools import cached_property

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
MIGRATE = """
from django.core.management import call_command

call_command("makemigrations", "shop")
call_command("migrate", verbosity=0)
"""
# To import all this takes a second: it is done once, and each script runs in a fork.
FORKS = """
import json, os, sys
import django

django.setup()
import django.core.mail, django.test
import digestif.aio, digestif.stores.sqlite, digestif.integrations.django.mail

for line in sys.stdin:
    text, arguments, output = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    sys.argv[1:] = arguments
    exec(text, {"__name__": "__main__", "sys": sys, "json": json})
    break
"""
BOUNDARY = "-" * 79 + "\n"  # between mails in a file


class Project(Recipe):
    """The project, with settings that write mails to a folder."""

    def make(self) -> None:
        self.run("-m", "django", "startproject", "mysite", ".")
        self.run("manage.py", "startapp", "shop", DJANGO_SETTINGS_MODULE="mysite.settings")
        self.write()
        (self.folder / "mysite" / "live.py").write_text(LIVE)
        self.run("-c", SETUP + MIGRATE)

    def close(self) -> None:
        if "_forks" in self.__dict__:
            self._forks.communicate(timeout=60)

    def manage(self, *arguments: str, code: int = 0, **environment: str) -> str:
        return self.run("manage.py", *arguments, code=code, **environment)

    def script(self, text: str, *arguments: str, **environment: str) -> str:
        """Run a script that finds Django set up, and `sys` and `json` imported; return what it prints."""
        if environment:
            return self.run("-c", SETUP + text, *arguments, code=0, **environment)
        output = self.folder / "script.log"
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps([text, arguments, str(output)]) + "\n")
        self._forks.stdin.flush()
        code = self._forks.stdout.readline()
        said = output.read_text("utf-8")
        assert code == "0\n", said
        return said

    @cached_property
    def _forks(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", FORKS],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def mails(self) -> list[EmailMessage]:
        """What went out, in the order of time."""
        files = sorted((self.folder / "mails").glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
        texts = [text for file in files for text in file.read_text("utf-8").split(BOUNDARY) if text.strip()]
        return [message_from_string(text, policy=policy.default) for text in texts]

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails()]
