"""Errors of a Django project behind `manage.py runserver`: what the console shows, and what is gathered."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from digestif import Digests
from digestif.testing.processes import free_port
from tests.integrations.projects import Project
from tests.integrations.recipes import Program

pytestmark = pytest.mark.long

TIMELINE = "django-admins:errors"
BUGS = """
import json
import logging

from django.http import HttpResponse
from django.urls import path
from django.views.generic import TemplateView


def total(request, number):
    prices = {"no": number}
    return HttpResponse(prices["price"])


def invoice(request, number):
    return HttpResponse(json.loads(f"invoice {number}"))


def refund(request, number):
    raise ValueError(f"no refund for {number}")


def logged(request, number):
    try:
        refund(request, number)
    except ValueError:
        logging.getLogger("shop").exception("order %s is not refunded", number)
        raise


def unavailable(request, number):
    return HttpResponse(status=503)


urlpatterns = [
    path("total/<int:number>", total),
    path("invoice/<int:number>", invoice),
    path("refund/<int:number>", refund),
    path("logged/<int:number>", logged),
    path("unavailable/<int:number>", unavailable),
    path("about/<int:number>", TemplateView.as_view(template_name="no-such.html")),
    path("terms/<int:number>", TemplateView.as_view(template_name="neither.html")),
]
"""
SETTINGS = """
from mysite.live import *

DEBUG = True
ROOT_URLCONF = "shop.bugs"
"""
ALSO_WHILE_DEVELOPING = 'LOGGING["handlers"]["mail_admins"]["filters"] = []'
HANDLER = '"admins": {"class": "digestif.integrations.django.DigestAdminHandler", "level": "ERROR"}'


class Site:
    """A project behind runserver."""

    def __init__(self, program: Program, port: int) -> None:
        self._program, self._port = program, port

    def get(self, path: str) -> int:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def words_of(self, path: str) -> str:
        """Ask for a path, and return what the console says of it, without times and ports."""
        before = len(self._program.words)
        self.get(path)
        words = self._program.wait_for(f'"GET {path} HTTP/1.1"')[before:]
        return re.sub(r"\[\d+/\w+/\d+ [\d:]+\]|\d+\n$", "", words)


@contextmanager
def running(project: Project, settings: str) -> Iterator[Site]:
    (project.folder / "shop" / "bugs.py").write_text(BUGS)
    (project.folder / "mysite" / "trial.py").write_text(SETTINGS + settings)
    address = f"127.0.0.1:{(port := free_port())}"
    with project.start("manage.py", "runserver", "--noreload", "--settings=mysite.trial", address) as program:
        program.wait_for("Quit the server with")
        yield Site(program, port)


def gathered(project: Project) -> list[dict[str, str]]:
    with Digests(f"sqlite:///{project.folder / 'digests.db'}") as digests:
        return [record.value for record in digests.peek(TIMELINE)]


def test_runserver_prints_what_it_printed_before_and_the_error_is_gathered_once(project: Project) -> None:
    with running(project, "del LOGGING") as site:
        before = site.words_of("/total/7")

    with running(project, ALSO_WHILE_DEVELOPING) as site:
        assert site.words_of("/total/7") == before

    assert before.count("Traceback (most recent call last)") == 1
    assert before.count('"GET /total/7 HTTP/1.1" 500') == 1
    assert [value["title"] for value in gathered(project)] == ["KeyError: 'price' in shop/bugs.py:12 total"]


def test_as_with_django_nothing_is_gathered_while_developing_unless_it_is_asked_for(project: Project) -> None:
    with running(project, "") as site:
        site.words_of("/total/7")
    assert gathered(project) == []

    with running(project, "DEBUG = False") as site:
        site.words_of("/total/7")
    assert len(gathered(project)) == 1


@pytest.mark.parametrize(
    "loggers",
    [
        '"django": {"handlers": ["admins"], "level": "INFO"}',  # then django.server propagates to it
        '"django.request": {"handlers": ["admins"]}, "django.server": {"handlers": ["admins"]}',
        '"": {"handlers": ["admins"]}, "django": {"handlers": ["admins", "others"]}',
    ],
    ids=["propagated", "both", "nested"],
)
def test_a_failing_request_is_one_record_whichever_loggers_have_the_handler(project: Project, loggers: str) -> None:
    handlers = f"{{{HANDLER}, {HANDLER.replace('admins', 'others', 1)}}}"
    logging = f'LOGGING = {{"version": 1, "handlers": {handlers}, "loggers": {{{loggers}}}}}'
    with running(project, logging) as site:
        assert [site.get(f"/{view}/7") for view in ("total", "logged", "unavailable")] == [500, 500, 503]

    assert [value["example"] for value in gathered(project)] == ["/unavailable/7", "/logged/7", "/total/7"]


FORGOTTEN = """
import gc, logging, weakref

from django.test import RequestFactory


def view(request):
    try:
        return {}["price"]
    except KeyError:
        logging.getLogger("django.request").exception("no price", extra={"request": request, "status_code": 500})


gc.disable()
request = RequestFactory().get("/total/7")
known = weakref.ref(request)
view(request)
view(request)
del request
print("still there" if known() else "gone")
"""


def test_a_request_that_failed_is_not_kept_in_memory(project: Project) -> None:
    assert project.script(FORGOTTEN) == "gone\n"
    assert len(gathered(project)) == 2


DELIVERED = """
from digestif.integrations.django import digests

assert digests().deliver("django-admins:errors")
ledger = digests().ledger()
print(ledger.accepted, ledger.delivered, ledger.pending, digests().verify().problems)
"""


def test_three_bugs_under_fifty_paths_each_are_three_subjects_with_counts(project: Project) -> None:
    with running(project, "DEBUG = False") as site, ThreadPoolExecutor(5) as pool:
        paths = [f"/{bug}/{number}" for number in range(50) for bug in ("total", "invoice", "refund")]
        assert set(pool.map(site.get, paths)) == {500}

    assert project.script(DELIVERED) == "150 150 0 ()\n"
    [mail] = project.mails()
    assert mail["Subject"].startswith("[Django] 150 errors: ")
    body = mail.get_body(("plain",))
    assert body is not None
    rows, *_ = body.get_content().split("\n\n")
    assert sorted(rows.splitlines()[::2]) == [
        "    50 × JSONDecodeError: Expecting value: line 1 column 1 (char 0) in shop/bugs.py:16 invoice",
        "    50 × KeyError: 'price' in shop/bugs.py:12 total",
        "    50 × ValueError in shop/bugs.py:20 refund",
    ]
    assert all(re.fullmatch(r" {9}(/\w+/\d+, ){4}/\w+/\d+ and 45 more", row) for row in rows.splitlines()[1::2])


def test_bugs_that_no_line_of_the_application_tells_apart_are_told_apart_by_their_route(project: Project) -> None:
    with running(project, "DEBUG = False") as site:
        for number in range(3):
            for view in ("about", "terms", "unavailable"):
                site.get(f"/{view}/{number}")

    groups = sorted(re.sub(r"\S+\.py:\d+ \w+", "…", value["group"]) for value in gathered(project))
    assert groups == [
        *["Service Unavailable for unavailable/<int:number>"] * 3,
        *["TemplateDoesNotExist in … for about/<int:number>"] * 3,
        *["TemplateDoesNotExist in … for terms/<int:number>"] * 3,
    ]
