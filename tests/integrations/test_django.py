"""The project of the page about Django, made by `startproject`: its own tests, its command, a worker, and its mails."""

import json
from collections.abc import Iterator
from email import message_from_string, policy
from email.message import EmailMessage
from urllib.parse import urlsplit

import pytest

from digestif.testing.servers import becomes_true
from tests.docs.pages import blocks
from tests.integrations.recipes import Recipe
from tests.stores.postgres.servers import empty_database

MODELS = """
from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
    customer = models.CharField(max_length=100)
    state = models.CharField(max_length=20, default="new")
"""
URLS = """
from django.urls import path

from shop.views import pay

urlpatterns = [path("orders/<int:number>/pay", pay)]
"""
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
        self.write()
        (self.folder / "shop" / "__init__.py").touch()
        (self.folder / "shop" / "models.py").write_text(MODELS)
        (self.folder / "mysite" / "urls.py").write_text(URLS)
        (self.folder / "mysite" / "live.py").write_text(LIVE)
        self.manage("migrate", "--run-syncdb", "-v", "0")

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


def test_the_tests_of_the_page_pass(project: Project) -> None:
    said = project.manage("test", DJANGO_SETTINGS_MODULE="mysite.settings")

    assert "Ran 5 tests" in said
    assert "OK" in said


# Settings


def test_the_settings_of_the_page_are_right(project: Project) -> None:
    assert "no issues" in project.manage("check")
    assert not (project.folder / "digests.db").exists()  # a check opens nothing


def test_a_wrong_name_is_refused_as_the_page_says(project: Project) -> None:
    (project.folder / "mysite" / "wrong.py").write_text(
        "from mysite.settings import *\nDIGESTIF = {'STROE': 'memory://'}\n"
    )
    [shown] = [block.text.strip() for block in blocks(project.page) if "STROE" in block.text]

    assert shown in project.manage("check", code=1, DJANGO_SETTINGS_MODULE="mysite.wrong")
    assert shown in project.manage("digestif", "status", code=1, DJANGO_SETTINGS_MODULE="mysite.wrong")


WRONG = {
    "the setting is missing": None,
    "is not a dictionary": "sqlite:///digests.db",
    'give "STORE", a DSN': {"NAMESPACE": "d"},
    "did you mean CAN_WAIT?": {"STORE": "memory://", "EMAIL": {"CANWAIT": "a.b"}},
    "did you mean POLICY?": {"STORE": "memory://", "ADMINS": {"POLICIES": "hourly"}},
    'DIGESTIF["STORE"]: ': {"STORE": "sqlit:///digests.db"},
    'DIGESTIF["POLICY"]: ': {"STORE": "memory://", "POLICY": "minimun=5m"},
    'DIGESTIF["EMAIL"]["POLICY"]: ': {"STORE": "memory://", "EMAIL": {"POLICY": "sometimes"}},
    "DIGESTIF: lease: ": {"STORE": "memory://", "LEASE": -1},
    "must be another backend": {
        "STORE": "memory://",
        "EMAIL": {"BACKEND": "digestif.integrations.django.DigestEmailBackend"},
    },
    "neither a function nor the path of one": {"STORE": "memory://", "EMAIL": {"CAN_WAIT": 5}},
    'DIGESTIF["EMAIL"]["CAN_WAIT"]: ': {"STORE": "memory://", "EMAIL": {"CAN_WAIT": "shop.mails.can_wayt"}},
    "has no channel": {"STORE": "memory://", "ROUTES": {"mail:*": {}}},
    "DIGESTIF[\"ROUTES\"]['mail:*']: ": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "grup_by": []}},
    },
    "is not in DATABASES; did you mean default?": {"DATABASE": "defalt"},
    "only PostgreSQL can hold the store": {"DATABASE": "default"},
}


def test_what_is_wrong_is_named_by_its_place(project: Project) -> None:
    script = """
from django.core.checks import run_checks
from django.test import override_settings

for value in json.loads(sys.argv[1]):
    with override_settings(DIGESTIF=value):
        print([check.msg for check in run_checks(tags=["digestif"])])
"""
    said = project.run("-c", SETUP + script, json.dumps(list(WRONG.values()))).splitlines()

    assert len(said) == len(WRONG)
    assert [(part, line) for part, line in zip(WRONG, said, strict=True) if part not in line.replace("\\'", "'")] == []


# The command


COMMANDS = """
from django.core.management import call_command

call_command("digestif", "add", "order:ada", '{"title": "Hello"}')
call_command("digestif", "explain", "order:ada")
call_command("digestif", "explain", "order:ada", "--json")
"""


def test_the_command_line_has_the_engine_of_the_project(project: Project) -> None:
    """Also through `call_command`, which goes on afterwards."""
    *_, explained = project.script(COMMANDS).splitlines()

    assert "maximum=1h" in json.loads(explained)["policy"]
    assert "--threads" in project.manage("digestif", "worker", "--help")


def test_a_worker_delivers_what_a_view_adds(project: Project) -> None:
    project.script("""
from django.test import Client
from shop.models import Order

Order.objects.get_or_create(number=7, customer="ada")
assert Client().post("/orders/7/pay", {"card": "visa"}).status_code == 202
""")

    with project.start("manage.py", "digestif", "worker") as worker:
        worker.wait_for("Orders that are paid")
        assert worker.stop() == 0


# Transactions


IN_TRANSACTIONS = """
from django.db import transaction
from digestif.errors import InvalidRecord
from digestif.integrations.django import add, digests

with transaction.atomic():
    add("t", "kept")
    print(len(digests().peek("t")))
try:
    with transaction.atomic():
        add("t", "never")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
try:
    with transaction.atomic():
        add("t", b"bytes")
except InvalidRecord:
    print("refused where it is called")
add("t", "at once")
print(sorted(record.value for record in digests().peek("t")))
"""
EXPECTED = ["0", "refused where it is called", "['at once', 'kept']"]


def test_a_record_is_accepted_if_its_transaction_commits(project: Project) -> None:
    assert project.script(IN_TRANSACTIONS).splitlines() == EXPECTED


def test_a_record_is_part_of_the_transaction_in_postgresql(project: Project) -> None:
    """Not only after the commit: it is in the inbox before."""
    with empty_database() as url:
        parts = urlsplit(url)
        environment = {
            "DJANGO_SETTINGS_MODULE": "mysite.postgres",
            "PGDATABASE": parts.path[1:],
            "PGUSER": parts.username or "",
            "PGHOST": parts.hostname or "",
            "PGPORT": str(parts.port),
        }

        assert project.script(IN_TRANSACTIONS, **environment).splitlines() == EXPECTED
        assert project.script(INSIDE, **environment).splitlines() == ["[(1,)]", "1"]


INSIDE = """
from django.db import connection, transaction
from digestif.integrations.django import add, digests

with transaction.atomic():
    add("u", "inside")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM digestif.inbox")
        print(cursor.fetchall())
print(len(digests().peek("u")))
digests().close()
"""


# Mails


FLOOD = """
from django.core.mail import send_mail

for number in range(int(sys.argv[1]), int(sys.argv[2])):
    text = f"See /builds/{number}"
    assert send_mail(f"Build {number} failed", text, None, ["Ada <ada@example.org>"], html_message="<b>!</b>")
"""


def test_a_flood_of_mails_is_two(project: Project) -> None:
    """The first as it was written, the others as one."""
    project.run("-c", SETUP + FLOOD, "0", "1")
    with project.start("manage.py", "digestif", "worker") as worker:
        assert becomes_true(lambda: len(project.mails()) == 1), worker.words
        project.run("-c", SETUP + FLOOD, "1", "41")
        project.manage("digestif", "flush", "django-mail:ada@example.org")
        assert becomes_true(lambda: len(project.mails()) == 2), worker.words
        assert worker.stop() == 0

    first, second = project.mails()
    assert (first["Subject"], first["To"], first["From"]) == (
        "Build 0 failed",
        "Ada <ada@example.org>",
        "shop@example.org",
    )
    assert first.get_body(("html",)) is not None
    assert second["Subject"].strip().startswith("40 messages: Build 1 failed, Build 2 failed")
    assert second["To"] == "Ada <ada@example.org>"
    body = second.get_body(("plain",))
    assert body is not None
    assert [f"See /builds/{number}\n" in body.get_content() for number in range(1, 41)] == [True] * 40


STRAIGHT = """
from django.core.mail import EmailMessage, EmailMultiAlternatives
from digestif.integrations.django import digests

class Own(EmailMessage):
    pass

def sent(*mails):
    return [mail.send() for mail in mails]

to = {"to": ["ada@example.org"]}
html, calendar = EmailMessage("html", "<b>!</b>", **to), EmailMultiAlternatives("calendar", "!", **to)
html.content_subtype = "html"
calendar.attach_alternative("BEGIN:VCALENDAR", "text/calendar")
print(sent(
    EmailMessage("attachment", "!", attachments=[("a.txt", "a", "text/plain")], **to),
    EmailMessage("cc", "!", cc=["bob@example.org"], **to),
    EmailMessage("bcc", "!", bcc=["bob@example.org"], **to),
    EmailMessage("reply", "!", reply_to=["bob@example.org"], **to),
    EmailMessage("headers", "!", headers={"X-Mine": "1"}, **to),
    EmailMessage("large", "x" * 300_000, **to),
    EmailMessage("Your password", "!", **to),
    EmailMessage("no address", "!", to=["undisclosed"]),
    Own("own", "!", **to),
    html,
    calendar,
))
print(EmailMessage("nobody", "!").send(), digests().timelines())
print(EmailMessage("both", "!", to=["ada@example.org", "bob@example.org"]).send())
print(sorted(timeline.key for timeline in digests().timelines()))
"""


def test_what_is_more_than_a_text_or_can_not_wait_goes_out_at_once(project: Project) -> None:
    said = project.script(STRAIGHT).splitlines()

    assert said == [str([1] * 11), "0 []", "1", "['django-mail:ada@example.org', 'django-mail:bob@example.org']"]
    assert sorted(project.subjects()) == sorted(
        [
            "attachment",
            "cc",
            "bcc",
            "reply",
            "headers",
            "large",
            "Your password",
            "no address",
            "own",
            "html",
            "calendar",
        ]
    )


STORE_AWAY = """
from django.core.mail import send_mail
from django.test import override_settings
from django.conf import settings
from django.core.mail import BadHeaderError

with override_settings(DIGESTIF={**settings.DIGESTIF, "STORE": "sqlite:////nowhere/digests.db"}):
    print(send_mail("not lost", "!", None, ["ada@example.org"]))
for subject, to in (("two\\nlines", "ada@example.org"), ("one", "ada@example.org\\nbcc: eve@example.org")):
    try:
        send_mail(subject, "!", None, [to])
    except BadHeaderError:
        print("refused")
with override_settings(DIGESTIF={**settings.DIGESTIF, "STORE": "off://"}):
    print(send_mail("off", "!", None, ["ada@example.org"]))
"""


def test_what_can_t_be_stored_is_sent_at_once_and_wrong_headers_are_refused_where_they_are_given(
    project: Project,
) -> None:
    """A store that is away or off loses no mail; one wrong mail must not stop the others of its recipient."""
    assert project.script(STORE_AWAY).splitlines() == ["1", "refused", "refused", "1"]
    assert project.subjects() == ["not lost", "off"]


# Errors


ERRORS = """
from django.test import Client
from shop.models import Order
from digestif.integrations.django import digests

for number in (7, 8):
    Order.objects.get_or_create(number=number, customer="ada")
client = Client(raise_request_exception=False)

def fail(number, times):
    for _ in range(times):
        assert client.post(f"/orders/{number}/pay", {"card": "declined"}).status_code == 500

fail(7, 1)
assert digests().deliver("django-admins:errors")
fail(7, 48)
fail(8, 3)
assert digests().flush("django-admins:errors")
assert digests().deliver("django-admins:errors")
"""


def test_a_flood_of_errors_is_two_mails_with_counts(project: Project) -> None:
    shown = next(block.text for block in blocks(project.page) if "48 ×" in block.text)

    project.script(ERRORS)

    first, second = project.mails()
    assert first["To"] == "operators@example.org"
    assert first["Subject"] == "[Django] ERROR (EXTERNAL IP): Internal Server Error: /orders/7/pay"
    assert second["Subject"].startswith(
        "[Django] 51 errors: ERROR (EXTERNAL IP): Internal Server Error: /orders/7/pay,"
    )
    body = second.get_body(("plain",))
    assert body is not None
    assert body.get_content().startswith(shown)
    assert body.get_content().count("Exception Type: CardDeclined") == 2


ERRORS_WITHOUT_STORE = """
import logging
from django.conf import settings
from django.test import override_settings

with override_settings(DIGESTIF={**settings.DIGESTIF, "STORE": "sqlite:////nowhere/digests.db"}):
    logging.getLogger("django.request").error("it is all broken")
with override_settings(DIGESTIF={"STROE": "memory://"}, EMAIL_BACKEND=settings.DIGESTIF["EMAIL"]["BACKEND"]):
    logging.getLogger("django.request").error("the settings, too")
"""
ERROR_OF_A_LISTENER = """
import logging
from digestif.integrations.django import digests

logger = logging.getLogger("django.request")
digests().subscribe(lambda event: logger.error("while an error was gathered"))
logger.error("the first")
print([record.value["subject"] for record in digests().peek("django-admins:errors")])
"""


def test_an_error_that_gathering_causes_is_not_gathered(project: Project) -> None:
    """It would cause the next one, without end."""
    assert project.script(ERROR_OF_A_LISTENER) == "['ERROR: the first']\n"

    assert project.subjects() == ["[Django] ERROR: while an error was gathered"]


def test_an_error_goes_out_at_once_if_the_store_is_away_or_the_settings_are_wrong(project: Project) -> None:
    project.script(ERRORS_WITHOUT_STORE)

    assert sorted(project.subjects()) == ["[Django] ERROR: it is all broken", "[Django] ERROR: the settings, too"]
