"""The project of the page about Django, made by `startproject`: its own tests, settings, command and transactions."""

import json
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import blocks
from tests.integrations.projects import Project
from tests.stores.postgres.servers import empty_database

pytestmark = pytest.mark.long


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
    "'shop.no_such.weigh' can't be imported: ModuleNotFoundError: No module named 'shop.no_such'": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "weight": "shop.no_such.weigh"}},
    },
    "DIGESTIF[\"ROUTES\"]['mail:*']['prepare']: 'shop.views.charged' can't be imported: ImportError: Module": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "prepare": "shop.views.charged"}},
    },
    "DIGESTIF[\"ROUTES\"]['mail:*']['zone']: 'shop.views.zone' can't": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "zone": "shop.views.zone"}},
    },
    "DIGESTIF[\"POLICY\"]: 'shop.views.policy_of' can't": {"STORE": "memory://", "POLICY": "shop.views.policy_of"},
    'DIGESTIF["EMAIL"]["POLICY"]: \'shop.mails\' is not a function': {
        "STORE": "memory://",
        "EMAIL": {"POLICY": "shop.mails"},
    },
    "'shop.broken.keep' can't be imported: RuntimeError: redis://:…@host is away": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "keep": "shop.broken.keep"}},
    },
    "has no channel": {"STORE": "memory://", "ROUTES": {"mail:*": {}}},
    "DIGESTIF[\"ROUTES\"]['mail:*']: ": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "grup_by": []}},
    },
    "DIGESTIF[\"ROUTES\"]['mail:*']: keep: none() can't be called with (records) or (records, timeline)": {
        "STORE": "memory://",
        "ROUTES": {"mail:*": {"channel": "terminal://", "keep": "shop.hooks.none"}},
    },
    "is not in DATABASES; did you mean default?": {"DATABASE": "defalt"},
    "only PostgreSQL can hold the store": {"DATABASE": "default"},
}


def test_what_is_wrong_is_named_by_its_place(project: Project) -> None:
    """A password in the error of a module is not shown."""
    (project.folder / "shop" / "broken.py").write_text("raise RuntimeError('redis://:secret@host is away')\n")
    (project.folder / "shop" / "hooks.py").write_text("def none():\n    return []\n")
    script = """
from django.core.checks import run_checks
from django.test import override_settings

for value in json.loads(sys.argv[1]):
    with override_settings(DIGESTIF=value):
        print([check.msg for check in run_checks(tags=["digestif"])])
"""
    said = project.script(script, json.dumps(list(WRONG.values()))).splitlines()

    assert len(said) == len(WRONG)
    assert [(part, line) for part, line in zip(WRONG, said, strict=True) if part not in line.replace("\\'", "'")] == []
    assert "secret" not in "".join(said)


FUNCTIONS = """
from digestif import Policy, Record
from shop.models import Order


def keep(records, timeline):
    return [record for record in records if timeline == "mail:ada" and record.value["number"] > Order.objects.count()]


def prepare(records):
    return [Record(key, {**value, "title": f"No. {value['number']}"}, time) for key, value, time in records]


def split(digest):
    return {"ada": digest.records}


def weigh(subjects):
    return [subject.newest.value["number"] for subject in subjects]


async def weigh_later(subjects):
    return weigh(subjects)


def policy_of(timeline):
    return Policy(minimum_delay=77)


def zone_of(recipient, timeline):
    return "Asia/Tokyo" if Order.objects.count() >= 0 and timeline == "mail:ada" else "UTC"


def words_for(recipient):
    return {"open": "Look"} if Order.objects.count() >= 0 else {}


def links_for(timeline, recipient):
    return {"open": f"https://example.org/{recipient}/{Order.objects.count()}"}


def address_of(timeline):
    return f"{timeline}@example.org" if Order.objects.count() >= 0 else ""
"""
NAMED = """
from django.conf import settings
from django.core.checks import run_checks
from django.test import override_settings
from digestif.integrations.django import digests
from shop import functions

hooks = {"policy": "policy_of", "zone": "zone_of", "wording": "words_for", "links": "links_for"}
hooks |= {"keep": "keep", "prepare": "prepare", "split": "split", "weight": sys.argv[1]}
route = {"channel": "terminal://", "group_by": ["title"]}
route |= {option: f"shop.functions.{name}" for option, name in hooks.items()}
chat = {"channel": "terminal://", "to": "shop.functions.address_of"}
with override_settings(DIGESTIF={"STORE": "memory://", "ROUTES": {"mail:*": route, "chat:*": chat}}):
    assert run_checks(tags=["digestif"]) == []
    digests().add_many([("mail:ada", {"number": number}) for number in (-1, 7, 8)])
    print(digests().policy_of("mail:ada").policy.minimum_delay)
    digests().add("chat:1", "Hello")
    print(digests().preview("chat:1").recipient)
    assert digests().deliver("mail:ada")
"""


def test_the_functions_of_a_route_may_be_named(project: Project) -> None:
    """Functions and coroutines; they are imported after the apps, and may use the database."""
    (project.folder / "shop" / "functions.py").write_text(FUNCTIONS)

    for weight in ("weigh", "weigh_later"):
        delay, recipient, *said = project.script(NAMED, weight).splitlines()
        text = "\n".join(said)

        assert (delay, recipient) == ("77", "chat:1@example.org")
        assert text.index("No. 8") < text.index("No. 7")
        assert "No. -1" not in text
        assert "Look" in text
        assert "(Asia/Tokyo)" in text
        assert "https://example.org/ada/" in text


def test_a_hook_that_takes_other_arguments_is_refused_when_the_route_is_made(project: Project) -> None:
    script = """
from digestif import ConfigError
from digestif.integrations.django import digests, route

digests()
try:
    route("mail:*", channel="terminal://", keep=lambda: [])
except ConfigError as error:
    print(error)
"""
    assert project.script(script) == "keep: <lambda>() can't be called with (records) or (records, timeline)\n"


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
from digestif.errors import ConfigError, InvalidRecord
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
try:
    with transaction.atomic():
        add("t", "late", first_delay=1000 * 86_400)
except ConfigError:
    print("refused as well")
add("t", "at once")
print(sorted(record.value for record in digests().peek("t")))
"""
EXPECTED = ["0", "refused where it is called", "refused as well", "['at once', 'kept']"]


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


FAILING_HOOK = """
from django.db import transaction
from digestif.errors import StoreUnavailable
from digestif.integrations.django import add, digests

def fail(*_, **__):
    raise StoreUnavailable("the store is away")

digests().store.add = fail
with transaction.atomic():
    add("order:ada", "lost", key="paid/7")
    transaction.on_commit(lambda: print("the hook of another app"))
print("committed")
try:
    add("order:ada", "at once")
except StoreUnavailable:
    print("raised where it is called")
"""


def test_a_store_that_fails_after_the_commit_stops_no_other_hook(project: Project) -> None:
    """The transaction has succeeded, so its block must not raise. What is lost is logged."""
    logged, *said = project.script(FAILING_HOOK).splitlines()

    assert logged == (
        "the record 'paid/7' of 'order:ada' was not added after the commit: StoreUnavailable: the store is away"
    )
    assert said == ["the hook of another app", "committed", "raised where it is called"]


# The engine


TWO_THREADS = """
import threading
from digestif.integrations.django import digests
from digestif.testing.servers import becomes_true
from shop import gate

def is_waiting_for_the_module():
    frame = sys._current_frames()[second.ident]
    lock = frame.f_locals.get("self")
    return frame.f_code.co_name == "acquire" and getattr(lock, "name", None) == "slow.digests"

def import_module():
    import slow.digests

first = threading.Thread(target=import_module, daemon=True)
second = threading.Thread(target=digests, daemon=True)
first.start()
gate.is_importing.wait()
second.start()
assert becomes_true(is_waiting_for_the_module)
gate.go_on.set()
first.join(10)
second.join(10)
assert not first.is_alive() and not second.is_alive()
print(digests().engine.handlers.find("slow:1") is not None)
"""


def test_a_thread_that_imports_handlers_and_one_that_makes_the_engine_do_not_wait_for_each_other(
    project: Project,
) -> None:
    (project.folder / "slow").mkdir(exist_ok=True)
    (project.folder / "slow" / "__init__.py").touch()
    (project.folder / "slow" / "digests.py").write_text(SLOW_MODULE)
    (project.folder / "shop" / "gate.py").write_text(GATE)
    (project.folder / "mysite" / "slow.py").write_text("from mysite.live import *\nINSTALLED_APPS += ['slow']\n")

    said = project.script(TWO_THREADS, DJANGO_SETTINGS_MODULE="mysite.slow")

    assert said == "True\n"


GATE = """
import threading

is_importing, go_on = threading.Event(), threading.Event()
"""
SLOW_MODULE = """
from digestif.integrations.django import handler
from shop import gate

gate.is_importing.set()
gate.go_on.wait()


@handler("slow:*")
def deliver(digest):
    pass
"""
