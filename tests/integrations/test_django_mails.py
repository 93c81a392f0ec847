"""The mails and the error mails of a Django project as digests: what is gathered, and what goes out at once."""

import pytest

from digestif.testing.servers import becomes_true
from tests.docs.pages import blocks
from tests.integrations.projects import Project

pytestmark = pytest.mark.long

FLOOD = """
from django.core.mail import send_mail

for number in range(int(sys.argv[1]), int(sys.argv[2])):
    text = f"See /builds/{number}"
    assert send_mail(f"Build {number} failed", text, None, ["Ada <ada@example.org>"], html_message="<b>!</b>")
"""


def test_a_flood_of_mails_is_two(project: Project) -> None:
    """The first as it was written, the others as one."""
    project.script(FLOOD, "0", "1")
    with project.start("manage.py", "digestif", "worker") as worker:
        assert becomes_true(lambda: len(project.mails()) == 1), worker.words
        project.script(FLOOD, "1", "41")
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


def test_a_digest_of_250_mails_has_every_body(project: Project) -> None:
    project.script(FLOOD, "0", "250")
    project.script("from digestif.integrations.django import digests; digests().deliver('django-mail:ada@example.org')")

    [mail] = project.mails()
    body = mail.get_body(("plain",))
    assert body is not None
    lines = body.get_content().splitlines()
    assert [line for line in lines if line.startswith("See")] == [f"See /builds/{number}" for number in range(250)]


LARGE = """
from django.core.mail import send_mail
from digestif.integrations.django import digests

for number in range(25):
    send_mail(f"Log {number}", f"{number:04}-" + "x" * 250_000, None, ["ada@example.org"])
assert digests().deliver("django-mail:ada@example.org")
"""


def test_a_digest_that_is_too_large_for_one_mail_is_sent_as_two(project: Project) -> None:
    project.script(LARGE)

    first, second = project.mails()
    texts = "".join(str(mail.get_body(("plain",))) for mail in (first, second))
    assert [texts.count(f"{number:04}-x") for number in range(25)] == [1] * 25
    assert [mail["Subject"].split("(")[-1] for mail in (first, second)] == ["1 of 2)", "2 of 2)"]
    assert second["Message-ID"] == first["Message-ID"].replace("@", ".2@")


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
    warning, *said = project.script(STORE_AWAY).splitlines()

    assert warning.startswith("DigestEmailBackend: the store does not answer, so a mail is sent at once: Store")
    assert said == ["1", "refused", "refused", "1"]
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
    shown = next(block.text for block in blocks(project.page) if "51 ×" in block.text)

    project.script(ERRORS)

    first, second = project.mails()
    assert first["To"] == "operators@example.org"
    assert first["Subject"] == "[Django] ERROR (EXTERNAL IP): Internal Server Error: /orders/7/pay"
    assert second["Subject"].strip() == "[Django] 51 × CardDeclined in shop/views.py:30 charge"
    body = second.get_body(("plain",))
    assert body is not None
    assert body.get_content().startswith(shown)
    assert body.get_content().count("Exception Type: CardDeclined") == 1


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


SLOW_STORE = """
import logging, threading
from digestif.integrations.django import digests

store, add = digests().store, digests().store.add
is_waiting, go_on = threading.Event(), threading.Event()

def slow_once(*arguments, **options):
    store.add = add
    is_waiting.set()
    go_on.wait()
    return add(*arguments, **options)

store.add = slow_once
logger = logging.getLogger("django.request")
first = threading.Thread(target=logger.error, args=("the store is slow",))
second = threading.Thread(target=logger.error, args=("meanwhile",), daemon=True)
first.start()
is_waiting.wait()
second.start()
second.join(10)
print(second.is_alive(), [record.value["subject"] for record in digests().peek("django-admins:errors")])
go_on.set()
first.join()
second.join()
print(len(digests().peek("django-admins:errors")))
"""


def test_a_slow_store_holds_up_only_the_thread_whose_error_it_gathers(project: Project) -> None:
    assert project.script(SLOW_STORE).splitlines() == ["False ['ERROR: meanwhile']", "2"]


INSIDE_A_STORE = """
import logging

exec("logger.error('inside')", {"__name__": "digestif.stores.somewhere", "logger": logging.getLogger("django.request")})
"""


def test_an_error_that_a_store_logs_goes_out_at_once(project: Project) -> None:
    """To gather it would be to wait for the store inside of the store."""
    project.script(INSIDE_A_STORE)

    assert project.subjects() == ["[Django] ERROR: inside"]


BROKEN_CALLS = """
import logging
from django.conf import settings
from digestif.integrations.django import DigestAdminHandler

logger = logging.getLogger("django.request")
logger.error("%d of them", "many")
lost = logging.Logger("lost")
lost.addHandler(DigestAdminHandler(email_backend="no.such.backend"))
settings.DIGESTIF = {}
lost.error("neither gathered nor sent")
print("the application goes on")
"""


def test_a_log_call_that_can_not_be_mailed_does_not_raise(project: Project) -> None:
    """It is printed, as every handler of logging does."""
    said = project.script(BROKEN_CALLS)

    assert said.count("--- Logging error ---") == 2
    assert said.endswith("the application goes on\n")


def test_a_report_that_is_cut_ends_with_dots(project: Project) -> None:
    script = """
import logging
from digestif.integrations.django import digests

logging.getLogger("django.request").error("x" * 30_000)
print([(len(record.value["body"]), record.value["body"][-1]) for record in digests().peek("django-admins:errors")])
"""

    assert project.script(script) == "[(20000, '…')]\n"
