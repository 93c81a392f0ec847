"""Cadences: what the names stand for, and which ones are refused."""

from typing import Any

import pytest

from digestif import Cadences, ConfigError, Policy, Preference, Window


def test_the_usual_ones_are_there() -> None:
    assert dict(Cadences()) == {
        "off": Cadences.OFF,
        "instant": Policy.immediate(),
        "hourly": Policy.hourly(),
        "daily": Policy.daily("09:00", tz="UTC"),
        "weekly": Policy.weekly("mon 09:00", tz="UTC"),
    }


def test_own_ones_come_beside_them_or_replace_them_by_keyword_or_mapping() -> None:
    cadences = Cadences({"twice a day": "daily@09:00+17:00 UTC", "daily": Policy.hourly()}, never=Cadences.OFF)

    assert list(cadences) == ["off", "instant", "hourly", "daily", "weekly", "twice a day", "never"]
    assert cadences["daily"] == Policy.hourly()
    assert cadences["twice a day"] == Policy.daily("09:00", "17:00", tz="UTC")
    assert cadences["never"] is Cadences.OFF


def test_the_zone_of_a_person_replaces_that_of_the_window() -> None:
    cadences = Cadences()

    assert cadences.choose("daily", zone="Europe/Berlin") == Policy.daily("09:00", tz="Europe/Berlin")
    assert cadences.choose("hourly", zone="Europe/Berlin") == Policy.hourly()
    assert cadences.choose("off", zone="Europe/Berlin") is Cadences.OFF


def test_an_unknown_name_or_zone_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"cadence: 'dayly' is unknown; did you mean daily\?"):
        Cadences().choose("dayly")
    with pytest.raises(ConfigError, match="cadence: None is unknown"):
        Cadences().choose(None)
    for name in ("daily", "hourly", "off"):
        with pytest.raises(ConfigError, match=r"Europe/Berlin"):
            Cadences().choose(name, zone="Europe/Berlim")


@pytest.mark.parametrize("zone", [5, [], b"UTC", "localtime"])
def test_what_is_no_zone_is_refused_with_every_cadence(zone: Any) -> None:
    for name in ("daily", "hourly", "off"):
        with pytest.raises(ConfigError, match=r"^tz: "):
            Cadences().choose(name, zone=zone)


@pytest.mark.parametrize("wrong", [None, 7, True, Policy])
def test_what_is_neither_a_policy_nor_off_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="cadences: mine: "):
        Cadences(mine=wrong)


def test_a_text_that_can_not_be_read_is_refused_with_the_name_of_the_cadence() -> None:
    with pytest.raises(ConfigError, match=r"^cadences: x: policy: 'nope' is unknown"):
        Cadences({"x": "nope"})


@pytest.mark.parametrize("name", ["a", "7", "_", "é", "twice a day", "a.b:c-d_e", "x" * 64])
def test_a_name_has_letters_digits_and_a_few_signs(name: str) -> None:
    assert Cadences({name: Policy()})[name] == Policy()


def test_the_error_about_a_name_says_all_that_is_allowed() -> None:
    allowed = "1 to 64 letters, digits, blanks, _ . : or -, the first a letter, a digit or _"

    with pytest.raises(ConfigError, match=f"^cadences: 'a/b' is not a name of {allowed}$"):
        Cadences({"a/b": Policy()})


@pytest.mark.parametrize("name", ["", "-x", " ", "x" * 65, "a\nb"])
def test_a_name_that_people_could_not_type_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a name"):
        Cadences({name: Policy()})


@pytest.mark.parametrize(
    "policy", [Policy(backoff=lambda iteration: 60.0), Policy(window=Window.daily("09:00", tz=lambda timeline: "UTC"))]
)
def test_a_policy_that_cannot_be_stored_is_refused(policy: Policy) -> None:
    with pytest.raises(ConfigError, match="cadences: mine: "):
        Cadences(mine=policy)


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a mapping"):
        Cadences(["daily"])  # type: ignore[arg-type]  # on purpose


def test_times_are_no_name_and_the_error_says_where_they_belong() -> None:
    with pytest.raises(ConfigError, match=r"'daily@08:00' has times.*set_policy takes the text of a policy"):
        Cadences().choose("daily@08:00")


@pytest.mark.parametrize(
    ("preference", "text"),
    [
        (
            Preference(cadence="daily", zone="Europe/Berlin", policy=Policy.daily("09:00", tz="Europe/Berlin")),
            "daily (Europe/Berlin): daily@09:00 Europe/Berlin",
        ),
        (Preference(cadence="hourly", zone=None, policy=Policy.hourly()), "hourly: hourly"),
        (Preference(cadence="off", zone=None, policy=None), "off"),
    ],
)
def test_a_preference_is_short_as_text(preference: Preference, text: str) -> None:
    assert str(preference) == text
