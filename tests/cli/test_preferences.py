"""`digestif prefer`, `policy` and `replan`, and `add --policy`."""

import json
import sys
from pathlib import Path

import click
import pytest

from digestif import Digests, Policy
from digestif.cli.preferences import complete_cadence
from digestif.cli.program import cli
from tests.cli.runner import Run, is_one_line

APP = """
from digestif import Cadences, Digests, Policy

digests = Digests(
    "sqlite:///digestif.db", policy=Policy.hourly(), cadences=Cadences(lunch=Policy.daily("12:00", tz="UTC"))
)
"""


@pytest.fixture
def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "lunchroom.py").write_text(APP)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("lunchroom", None)
    return "lunchroom:digests"


# prefer


def test_a_cadence_is_chosen_and_shown(run: Run, digests: Digests) -> None:
    code, out, _ = run("prefer", "t", "daily", "--zone", "Europe/Berlin")

    assert (code, out) == (0, "t is daily: daily@09:00 Europe/Berlin\n")
    assert digests.policy_of("t").policy == Policy.daily("09:00", tz="Europe/Berlin")
    assert run("prefer", "t") == (0, out, "")
    assert run("prefer", "t", "--json").json == {
        "timeline": "t",
        "cadence": "daily",
        "zone": "Europe/Berlin",
        "policy": "daily@09:00 Europe/Berlin",
    }


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["daily@08:00"], "daily@08:00 UTC"),
        (["daily@08:00", "--zone", "Europe/Berlin"], "daily@08:00 Europe/Berlin"),
        (["daily@08:00", "Europe/Berlin"], "daily@08:00 Europe/Berlin"),
        (["weekly@mon 08:00 Europe/Berlin"], "weekly@mon 08:00 Europe/Berlin"),
        (["weekly@mon,thu", "08:00"], "weekly@mon,thu 08:00 UTC"),
        (["daily@08:00 UTC,capacity=50"], "daily@08:00 UTC,capacity=50"),
    ],
)
def test_times_of_ones_own_are_stored_as_a_policy(run: Run, digests: Digests, words: list[str], stored: str) -> None:
    answer = (0, f"t is on a policy of its own: {stored}\n", "")

    assert run("prefer", "t", *words) == answer
    assert run("prefer", "t") == answer
    assert str(digests.policy_of("t").policy) == stored
    assert run("prefer", "t", "--json").json == {"timeline": "t", "cadence": None, "zone": None, "policy": stored}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["daily@08:00", "UTC", "--zone", "UTC"], "the time zone is given twice"),
        (["daily@25:00"], "25:00"),
        (["daily@08:00", "--zone", "Mars/Base"], "Mars/Base"),
    ],
)
def test_times_that_are_no_policy_are_refused(run: Run, digests: Digests, words: list[str], why: str) -> None:
    code, _, err = run("prefer", "t", *words)

    assert (code, is_one_line(err)) == (2, True)
    assert why in err
    assert digests.policy_of("t").source == "engine"


def test_the_stored_zone_holds_unless_another_is_given(run: Run) -> None:
    run("prefer", "t", "daily", "--zone", "Europe/Berlin")

    assert run("prefer", "t", "weekly").out == "t is weekly: weekly@mon 09:00 Europe/Berlin\n"
    assert run("prefer", "t", "instant").out == "t is instant, in the zone Europe/Berlin: immediate\n"
    assert run("prefer", "t", "off").out == "t is off: no record is accepted\n"
    assert run("prefer", "t", "daily").out == "t is daily: daily@09:00 Europe/Berlin\n"
    assert run("prefer", "t", "daily", "--zone", "UTC").out == "t is daily: daily@09:00 UTC\n"
    run("prefer", "t", "daily", "--zone", "Asia/Tokyo")
    assert "daily@08:00 Asia/Tokyo" in run("prefer", "t", "daily@08:00").out


def test_nothing_chosen_is_code_1(run: Run, digests: Digests) -> None:
    digests.add("t", 1)

    assert run("prefer", "t") == (1, "nothing was chosen for t\n", "")
    assert run("prefer", "t", "--json").json["cadence"] is None


def test_off_is_told_and_declines_records(run: Run, digests: Digests) -> None:
    assert run("prefer", "t", "off") == (0, "t is off: no record is accepted\n", "")

    assert run("add", "t", "1") == (1, "declined: t is switched off\n", "")
    assert run("add", "t", "1", "--json").json["declined"] == 1
    assert run("ledger", "--json").json["declined"] == 2
    assert "2 declined" in run("status").out
    assert run("explain", "t").out.startswith("t: off: no record is accepted; ")


def test_what_waits_is_not_planned_by_policies_that_are_not_known_here(run: Run, digests: Digests) -> None:
    digests.prefer("t", "daily", zone="UTC")
    digests.add("t", 1)
    due = digests.timeline("t").due

    refused = run("policy", "t", "--clear")

    assert refused.code == 2
    assert "--clear needs --app" in refused.err
    assert (digests.timeline("t").due, digests.policy_of("t").source) == (due, "cadence daily")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dayly"], "did you mean daily?"),
        (["daily", "--zone", "Europe/Berlim"], "Europe/Berlin"),
        (["--zone", "UTC"], "--zone belongs to a CADENCE"),
    ],
)
def test_a_wrong_choice_is_one_line(run: Run, digests: Digests, arguments: list[str], message: str) -> None:
    code, out, err = run("prefer", "t", *arguments)

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert message in err


def test_the_cadences_are_those_of_the_program(run: Run, app: str) -> None:
    assert run("prefer", "t", "lunch", "--app", app).out == "t is lunch: daily@12:00 UTC\n"
    assert run("prefer", "t", "lunch").code == 2


def test_the_shell_completes_cadences(app: str, digests: Digests) -> None:
    def completed(incomplete: str, **params: str) -> list[str]:
        context = click.Context(cli, info_name="digestif")
        context.params = params
        return complete_cadence(context, click.Argument(["cadence"]), incomplete)

    assert completed("") == ["off", "instant", "hourly", "daily", "weekly"]
    assert completed("d") == ["daily"]
    assert completed("l", app=app) == ["lunch"]
    assert completed("h", store="memory://") == ["hourly"]


# policy


def test_the_policy_in_force_is_shown_with_its_source(run: Run, digests: Digests, app: str) -> None:
    digests.add("t", 1)

    assert run("policy", "t") == (0, "t: default (engine: the default, without --app)\n", "")
    assert run("policy", "t", "--app", app).out == "t: hourly (engine)\n"


def test_a_policy_is_stored_shown_and_cleared(run: Run, digests: Digests) -> None:
    stored = run("policy", "t", "daily@09:00", "Europe/Berlin")

    assert stored == (0, "t: daily@09:00 Europe/Berlin (override)\n", "")
    assert run("policy", "t") == stored
    assert run("policy", "t", "--json").json == {
        "timeline": "t",
        "policy": "daily@09:00 Europe/Berlin",
        "source": "override",
        "off": False,
        "done": True,
    }
    assert run("show", "t").out.splitlines()[2].split() == ["policy", "daily@09:00", "Europe/Berlin", "(override)"]
    assert run("policy", "t", "--clear").code == 0
    code, out, _ = run("policy", "t", "--clear")
    assert (code, out) == (1, "t: nothing was stored for it; default (engine: the default, without --app)\n")


def test_what_waits_says_when_it_is_due(run: Run, digests: Digests) -> None:
    digests.add("t", 1)
    with digests.digest("t"):
        pass
    digests.add("t", 2)

    assert run("policy", "t", "hourly").out.startswith(
        ("t: hourly (override); due in 59 min", "t: hourly (override); due in 1 h")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["every", "tuesday"], "every tuesday"), (["hourly", "--clear"], "leave out POLICY")],
)
def test_a_wrong_policy_is_one_line(run: Run, digests: Digests, arguments: list[str], message: str) -> None:
    code, out, err = run("policy", "t", *arguments)

    assert (code, out) == (2, "")
    assert is_one_line(err)
    assert message in err


# replan


def test_what_waits_is_planned_by_the_policies_of_the_program(run: Run, digests: Digests, app: str) -> None:
    for name in ("mail:a", "chat:a"):
        digests.add(name, 1)
        with digests.digest(name):
            pass
        digests.add(name, 2)

    assert run("replan", "mail:*", "--app", app).out == "1 timeline has another due time\n"
    assert run("replan", "--app", app, "--json").json == {"pattern": "*", "moved": 1}


def test_without_a_program_there_is_nothing_to_plan_by(run: Run, digests: Digests) -> None:
    code, _, err = run("replan")

    assert code == 2
    assert is_one_line(err)
    assert "replan needs --app" in err


# add


def test_records_are_added_by_a_policy_of_the_call(run: Run, digests: Digests) -> None:
    added = run("add", "t", "1", "--policy", "first=1h", "--json").json

    assert not added["ready"]
    assert run("add", "u", "--policy", "daily@09:00 UTC", stdin="1\n2\n").code == 0
    due = digests.timeline("u").due
    assert due is not None
    assert due % 86_400 == 9 * 3600


def test_a_policy_of_the_call_must_be_readable_and_the_only_one(run: Run, app: str) -> None:
    code, _, err = run("add", "t", "1", "--policy", "sometimes")
    assert (code, is_one_line(err)) == (2, True)

    code, _, err = run("add", "t", "1", "--policy", "hourly", "--app", app)
    assert code == 2
    assert "--app brings its own policies" in err


# explain


def test_explain_shows_times_in_the_zone_of_the_window(run: Run, digests: Digests) -> None:
    digests.set_policy("t", "daily@09:00 Asia/Tokyo")
    digests.add("t", 1)

    code, out, _ = run("explain", "t")
    text = " ".join(out.split())

    assert code == 0
    assert "the next time of daily@09:00 Asia/Tokyo is 09:00 Asia/Tokyo" in text
    assert "Its policy is daily@09:00 Asia/Tokyo, from `set_policy`." in text
    assert "09:00:00 (in " in text  # the fact `due`
    assert max(map(len, out.splitlines())) <= 80
    assert json.loads(run("explain", "t", "--json").out)["zone"] == "Asia/Tokyo"
