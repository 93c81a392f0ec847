"""Standard types and models as values: stored and read back by the table in docs/reference/values.md, or refused."""

import json
import math
import re
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest

from digestif import Digests, InvalidRecord, Record
from digestif.stores.codec import Sealer
from tests.docs.pages import DOCS

PAGE = (DOCS / "reference" / "values.md").read_text("utf-8")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


@dataclass
class Point:
    x: Any
    y: Any


@attrs.define
class Parcel:
    weight: Any


class Login(msgspec.Struct, tag=True, rename="camel"):
    user_name: Any = None
    note: Any = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    one: int
    two: Any


class Invoice:
    """As a pydantic model shows itself."""

    def __init__(self, total: Any) -> None:
        self.total = total

    def model_dump(self) -> Any:
        return {"total": self.total}


NAIVE = datetime(2026, 1, 2)  # noqa: DTZ001  # that is the point
NAMES = {
    kind.__name__: kind
    for kind in (
        datetime,
        date,
        time,
        timedelta,
        Decimal,
        UUID,
        ZoneInfo,
        Colour,
        Point,
        Parcel,
        Login,
        Invoice,
        Record,
    )
} | {"UTC": UTC}

Pair = namedtuple("Pair", "one two")  # as callers have them


def rows(title: str) -> list[list[str]]:
    """The cells of the table on the page that begins with this title."""
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [row.strip("| ").split(" | ") for row in table]


def code(cell: str) -> str:
    found = re.match(r"`([^`]+)`", cell)
    assert found is not None
    return found[1]


TAKEN = [(code(row[0]), code(row[1])) for row in rows("value")]
REFUSED = [code(row[0]) for row in rows("refused")]


# The page


def test_the_page_tells_of_every_type() -> None:
    kinds = {type(eval(example, NAMES)) for example, _ in TAKEN}

    assert {datetime, date, time, timedelta, Decimal, UUID, Colour, tuple, set, Point, Parcel, Login, Invoice} == kinds
    assert {type(eval(example, NAMES)) for example in REFUSED} >= {datetime, bytes, float, dict, Record, object}


@pytest.mark.parametrize(("example", "stored"), TAKEN)
@pytest.mark.parametrize("codec", ["json", "zstd"])
def test_a_value_is_stored_as_the_page_says(codec: str, example: str, stored: str) -> None:
    value = eval(example, NAMES)
    sealer = Sealer(codec)

    for given, expected in [(value, json.loads(stored)), ({"in": [value]}, {"in": [json.loads(stored)]})]:
        assert sealer.unseal(sealer.seal(given)) == expected
    assert Sealer("json").seal(value) == f"json/1 {stored}".encode()


@pytest.mark.parametrize("example", REFUSED)
@pytest.mark.parametrize("codec", ["json", "zstd"])
def test_what_the_page_says_is_refused_is_refused_with_its_place(codec: str, example: str) -> None:
    value = eval(example, NAMES)

    with pytest.raises(InvalidRecord, match=r"^value: "):
        Sealer(codec).seal(value)
    with pytest.raises(InvalidRecord, match=r"^value\.items\[2\]\.when: .+; .+"):
        Sealer(codec).seal({"items": [1, Point(1, 2), {"when": value}]})


# Further values


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        ({Word.YES: Word.YES}, {"yes": "yes"}),
        ({Colour.RED: 1}, None),
        (Pair(1, date(2026, 1, 2)), [1, "2026-01-02"]),
        (OrderedDict(a=(1,)), {"a": [1]}),
        (Row(1, {2}), [1, [2]]),
        ([Login()], [{"type": "Login", "userName": None}]),
        (Point(Parcel(Invoice(Point(1, (Level.HIGH,)))), None), None),
        (frozenset(["b", "a"]), ["a", "b"]),
        ({1, "a", None}, ["a", 1, None]),
        ({(1, 2), (1,)}, [[1], [1, 2]]),
        (set(), []),
        (timedelta(seconds=-90), -90.0),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))), "2026-01-02T00:00:00+05:30"),
        (datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC), "2026-01-02T03:04:05.000600Z"),
        (Decimal("1E+400"), "1E+400"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_values_within_values(value: Any, read: Any) -> None:
    sealer = Sealer("json")
    if isinstance(value, dict) and Colour.RED in value:  # its value is text, but it is none
        with pytest.raises(InvalidRecord, match=r"its key <Colour\.RED: 'red'> is not text"):
            sealer.seal(value)
    elif isinstance(value, Point):
        assert sealer.unseal(sealer.seal(value)) == {"x": {"weight": {"total": {"x": 1, "y": [3]}}}, "y": None}
    else:
        assert sealer.unseal(sealer.seal(value)) == read


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a b": math.inf}, "value['a b']: inf"),
        ([[], [b"x"]], "value[1][0]: b'x'"),
        (Point(1, {"z": {1: 2}}), "value.y.z: its key 1"),
        (Parcel("\ud800"), "value.weight: '\\ud800' can't be encoded"),
        ({"\ud800": (1,)}, "value: '\\ud800' can't be encoded"),
        (Invoice({"when": [NAIVE]}), "value.total.when[0]: datetime.datetime(2026, 1, 2, 0, 0) has no"),
        (Point, "value: <class"),
    ],
)
def test_the_place_of_what_is_refused_is_named(value: Any, place: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^{re.escape(place)}"):
        Sealer("json").seal(value)


def test_a_model_that_contains_itself_is_refused() -> None:
    point = Point(1, 2)
    point.y = point

    class Endless:
        def model_dump(self) -> Any:
            return Endless()

    for value in (point, Endless()):
        with pytest.raises(InvalidRecord, match="nested"):
            Sealer("json").seal(value)


def test_models_may_be_nested_64_levels_deep() -> None:
    def chain(levels: int) -> Any:
        return None if levels == 0 else Parcel(chain(levels - 1))

    Sealer("json").seal(chain(64))
    with pytest.raises(InvalidRecord, match=r"^value\.weight\.weight.*: nested deeper than 64 levels"):
        Sealer("json").seal(chain(65))


def test_a_model_that_fails_is_refused_with_its_reason() -> None:
    class Broken:
        def model_dump(self) -> Any:
            raise OSError("no database")

    with pytest.raises(InvalidRecord, match=r"value\.x: Broken can't be turned into JSON: OSError: no database"):
        Sealer("json").seal({"x": Broken()})


def test_a_codec_of_ones_own_gets_values_as_they_are() -> None:
    class MessagePack:
        name = "msgpack/1"

        def encode(self, value: Any) -> bytes:
            return msgspec.msgpack.encode(value)

        def decode(self, payload: bytes) -> Any:
            return msgspec.msgpack.decode(payload)

    sealer = Sealer(MessagePack())
    value = {"at": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\0"}

    assert sealer.unseal(sealer.seal(value)) == value
    with pytest.raises(InvalidRecord, match="would not read back equal"):
        sealer.seal((1, 2))


def test_what_is_refused_leaves_nothing_and_what_is_taken_is_delivered_as_json() -> None:
    digests = Digests("memory://")
    with pytest.raises(InvalidRecord):
        digests.add_many([("t", {"ok": date(2026, 1, 2)}), ("t", NAIVE)])

    assert digests.ledger().accepted == 0

    digests.add("t", Point((1,), {"due": date(2026, 1, 2)}), now=1)
    with digests.digest("t", now=2) as digest:
        assert digest[0].value == {"x": [1], "y": {"due": "2026-01-02"}}


# Subclasses with methods of their own


class EqualToAll:
    """Says that it equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class LyingDict(EqualToAll, dict[Any, Any]):  # type: ignore[misc]  # it has a hash, too
    def items(self) -> Any:
        return [("other", "thing")]


class LyingList(EqualToAll, list[Any]):  # type: ignore[misc]
    def __iter__(self) -> Any:
        return iter(["other"])


class LyingText(EqualToAll, str): ...


class LyingBytes(EqualToAll, bytes): ...


class OwnKey(str):
    """Equal to nothing but itself, and written like others."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class RaisingDict(dict[Any, Any]):
    def __eq__(self, other: object) -> bool:
        raise KeyError("no comparison")

    __hash__ = None


@pytest.mark.parametrize("codec", ["json", "zstd"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (LyingDict(x=math.nan), "value.x: nan would not read back equal"),
        ({"a": LyingDict({1: 2})}, "value.a: its key 1 is not text"),
        ([LyingList([math.inf])], "value[0][0]: inf would not read back equal"),
        ({"a": [LyingBytes(b"raw")]}, "value.a[0]: b'raw' is bytes"),
        ({OwnKey("a"): 1, OwnKey("a"): 2}, "value: two of its keys are 'a'"),
    ],
)
def test_a_comparison_of_its_own_passes_nothing_off_as_equal(codec: str, value: Any, why: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        Sealer(codec).seal(value)

    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (LyingDict(a=1), {"a": 1}),
        ([LyingList([1, 2]), LyingText("x")], [[1, 2], "x"]),
        ({LyingText("k"): LyingDict(a=(1, 2))}, {"k": {"a": [1, 2]}}),
        (RaisingDict(a=RaisingDict(b=1)), {"a": {"b": 1}}),
    ],
)
def test_a_subclass_is_stored_with_what_it_holds(value: Any, stored: Any) -> None:
    sealer = Sealer("json")

    assert sealer.unseal(sealer.seal(value)) == stored


class Proxy:
    """Stands for another object, as the lazy objects of web frameworks do: it has the class of that."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property  # type: ignore[misc]  # which is what proxies do
    def __class__(self) -> Any:
        return type(self.inner)


@pytest.mark.parametrize("inner", [{"a": 1}, [1], {1}, "text", 7, True, Decimal(1), UUID(int=1), b"raw", Colour.RED])
def test_an_object_that_only_claims_a_class_is_refused(inner: Any) -> None:
    with pytest.raises(
        InvalidRecord, match=r"^value\.user: .* of the class tests.*\.Proxy, has no JSON form; give text"
    ):
        Sealer("json").seal({"user": Proxy(inner)})
