"""Values pass through a codec that is named in each of them, and are bounded on the way in and on the way out."""

import enum
import json
import math
import pickle
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digestif import ConfigError, Digest, Digests, InvalidRecord, Policy
from digestif.core import records
from digestif.core.records import VALUE_BYTES
from digestif.core.terms import Terms
from digestif.stores.base import Arrival
from digestif.stores.codec import Decoded, Sealer, ZstdCodec
from tests.worker.workers import once

VALUE = {"title": "Build failed", "tags": ["a", "b"], "count": 3, "ratio": 0.5, "none": None, "text": "ü" * 2000}


class Shouting:
    """A codec of a user's own."""

    name = "shout/1"

    def encode(self, value: Any) -> bytes:
        return str(value).upper().encode()

    def decode(self, payload: bytes) -> Any:
        return payload.decode()


class Nameless(Shouting):
    name = "has spaces"


shouting = Shouting()


class Plain:
    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, payload: bytes) -> Any:
        return payload.decode()


class Pickled:
    """A codec that takes any object, and makes it small."""

    name = "pickled/1"

    def encode(self, value: Any) -> bytes:
        return zlib.compress(pickle.dumps(value))

    def decode(self, payload: bytes) -> Any:
        return pickle.loads(zlib.decompress(payload))


CODECS = pytest.mark.parametrize("codec", ["json", "zstd", Pickled()], ids=["json", "zstd", "own"])


@pytest.mark.parametrize("codec", ["json", "zstd"])
def test_a_built_in_codec_gives_back_what_it_was_given(codec: str) -> None:
    sealer = Sealer(codec)

    assert sealer.unseal(sealer.seal(VALUE)) == VALUE
    assert sealer.unseal(sealer.seal(None)) is None


def test_json_is_readable_in_the_store() -> None:
    assert Sealer("json").seal({"a": [1, None]}) == b'json/1 {"a":[1,null]}'


def test_zstd_makes_long_values_smaller() -> None:
    assert len(Sealer("zstd").seal(VALUE)) < len(Sealer("json").seal(VALUE)) / 5


def test_a_value_of_another_built_in_codec_can_be_read() -> None:
    assert Sealer("json").unseal(Sealer("zstd").seal(VALUE)) == VALUE


def test_zstd_without_its_module_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)

    with pytest.raises(ConfigError, match="needs the module zstandard of the extra zstd; pip install 'zstandard>="):
        Sealer("zstd")


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        (Shouting(), b"shout/1 HELLO"),
        (f"{__name__}:shouting", b"shout/1 HELLO"),
        (f"{__name__}:Shouting", b"shout/1 HELLO"),
        (f"{__name__}:Plain", f"{__name__}:Plain HELLO".encode()),
        (Plain(), f"{__name__}:Plain HELLO".encode()),
    ],
)
def test_a_codec_of_ones_own_is_an_object_or_a_name(codec: Any, stored: bytes) -> None:
    sealer = Sealer(codec)

    assert sealer.seal("HELLO") == stored
    assert sealer.unseal(stored) == "HELLO"


def test_a_codec_that_changes_the_value_is_refused_before_anything_is_written() -> None:
    digests = Digests("memory://", codec=Shouting())

    with pytest.raises(InvalidRecord, match="would not read back equal"):
        digests.add("t", "hello")

    assert digests.ledger().accepted == 0


@pytest.mark.parametrize(
    ("codec", "complaint"),
    [
        ("jsn", "did you mean json"),
        ("no_such_module:codec", "can't be imported"),
        (f"{__name__}:nothing", "can't be imported"),
        (f"{__name__}:VALUE", "no encode and decode"),
        (object(), "no encode and decode"),
        (Nameless(), "white space"),
    ],
)
def test_a_wrong_codec_is_a_clear_error(codec: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Sealer(codec)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "missing"),
        (b"json/1 {", "json/1 can't decode it"),
        (b"other/7 x", "'other/7', which is not configured"),
        (b"", "not configured"),
    ],
)
def test_what_cannot_be_decoded_says_why(payload: bytes | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Sealer("json").unseal(payload)


def test_a_digest_with_values_of_an_unknown_codec_delivers_the_others() -> None:
    store = Digests("memory://").store
    Digests(store, codec=Shouting()).add("t", "HELLO", key="loud", now=1)
    digests = Digests(store, policy=Policy())
    digests.add("t", "hello", key="plain", now=1)

    with digests.digest("t", now=2) as digest:
        assert [record.key for record in digest] == ["plain"]

    (letter,) = digests.dead_letters()
    assert "shout/1" in letter.reason
    assert digests.ledger().dead == 1


# Depth


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@CODECS
def test_a_value_may_be_nested_64_levels_deep(codec: Any) -> None:
    sealer = Sealer(codec)

    assert sealer.unseal(sealer.seal(nested(64))) == nested(64)


@CODECS
@pytest.mark.parametrize("levels", [65, 996, 100_000])
def test_a_value_nested_deeper_is_refused_with_its_place(codec: Any, levels: int) -> None:
    with pytest.raises(InvalidRecord, match=r"nested deeper than 64 levels, at \['deep'\]\["):
        Sealer(codec).seal({"flat": [1, 2, [3]], "deep": nested(levels - 1)})


@CODECS
def test_a_value_that_contains_itself_is_refused(codec: Any) -> None:
    value: list[Any] = []
    value += [value, value]

    with pytest.raises(InvalidRecord, match=r"nested deeper than 64|larger than|at least"):
        Sealer(codec).seal(value)


def test_whatever_is_a_kind_of_dict_or_list_counts_as_one() -> None:
    ordered: Any = 1
    tuples: Any = 1
    for _ in range(65):
        ordered, tuples = OrderedDict(a=ordered), (frozenset([tuples]),)

    given: list[tuple[Any, Any]] = [("json", ordered), (Pickled(), ordered), (Pickled(), tuples)]
    for codec, value in given:
        with pytest.raises(InvalidRecord, match="nested deeper than 64"):
            Sealer(codec).seal(value)


@CODECS
def test_many_brackets_are_not_depth(codec: Any) -> None:
    sealer = Sealer(codec)
    value = {"text": "[{" * 1000, "list": [[]] * 1000}

    assert sealer.unseal(sealer.seal(value)) == value


# Values of earlier releases, and of nobody


def store(digests: Digests, key: str, payload: bytes) -> None:
    """Past the border."""
    digests.store.add([Arrival("t", key, payload, 1.0, None, Terms())], now=1000)


def json_nested(levels: int) -> bytes:
    return b"json/1 " + b"[" * levels + b"]" * levels


def deep_down(calls: int, act: Callable[[], Any]) -> Any:
    return deep_down(calls - 1, act) if calls else act()


def delivered(digests: Digests) -> set[str]:
    with digests.digest("t", now=2) as digest:
        return {record.key for record in digest}


def test_a_deep_value_is_delivered_however_deep_the_calls_of_its_reader_are() -> None:
    digests = Digests("memory://")
    store(digests, "deep", json_nested(700))
    digests.add("t", 1, key="flat", now=1)

    found = deep_down(400, lambda: delivered(digests))

    assert found == {"deep", "flat"}
    assert digests.ledger().dead == 0


def test_a_value_too_deep_to_be_decoded_is_quarantined_alone() -> None:
    digests = Digests("memory://")
    store(digests, "too deep", json_nested(100_000))
    digests.add("t", 1, key="flat", now=1)

    assert delivered(digests) == {"flat"}

    (letter,) = digests.dead_letters()
    assert (letter.records, digests.ledger().dead) == (1, 1)
    assert "RecursionError" in letter.reason


def test_a_worker_quarantines_it_too() -> None:
    digests = Digests("memory://")
    store(digests, "too deep", json_nested(100_000))
    digests.add("t", 1, key="flat")
    found: list[str] = []

    @digests.handler("*")
    def send(digest: Digest) -> None:
        found.extend(record.key for record in digest)

    once(digests)

    assert found == ["flat"]
    assert digests.ledger().dead == 1


# What comes out

MIB = 1024 * 1024


def zstd_frame(size: int, *, claimed: int | None = None) -> bytes:
    """A frame of Zstandard that becomes so many zeros; few bytes, each block stands for 128 KiB."""
    head = b"\x28\xb5\x2f\xfd" + (b"\x00\x58" if claimed is None else b"\xc0\x58" + claimed.to_bytes(8, "little"))
    blocks = size // (128 * 1024)
    a_block, the_last = (((128 * 1024) << 3 | 1 << 1 | last).to_bytes(3, "little") + b"0" for last in (0, 1))
    return head + a_block * (blocks - 1) + the_last


def test_a_frame_of_the_tests_own_is_sound() -> None:
    with pytest.raises(ValueError, match="can't decode it: DecodeError"):  # zeros are no JSON
        Sealer("zstd").unseal(b"zstd/1 " + zstd_frame(4 * MIB))


@pytest.mark.parametrize("codec", ["zstd", Pickled()], ids=["zstd", "own"])
def test_a_value_that_only_compression_makes_small_is_refused(codec: Any) -> None:
    sealer = Sealer(codec)
    just, more = "x" * (4 * MIB - 2), "x" * (4 * MIB + 1)

    assert sealer.unseal(sealer.seal(just)) == just
    with pytest.raises(InvalidRecord, match="4194304"):
        sealer.seal(more)


def test_for_a_codec_of_ones_own_each_item_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "VALUE_SIZE", 1000)
    sealer = Sealer(Pickled())

    sealer.seal([0] * 999)
    sealer.seal(["text", b"bytes", {"a": ["x" * 900]}])
    texts = [{"a": "x" * 500, "b": ["x" * 500]}]
    refused: list[Any] = [[0] * 1000, texts, {"a": [[]] * 1000}, {"x" * 1000: 0}, bytearray(1001)]
    for value in refused:
        with pytest.raises(InvalidRecord, match="larger than 1000"):
            sealer.seal(value)


@pytest.mark.parametrize(
    "frame",
    [
        zstd_frame(8 * MIB),
        zstd_frame(8 * MIB, claimed=8 * MIB),
        zstd_frame(8 * MIB, claimed=1000),
        zstd_frame(MIB, claimed=1 << 60),
        zstd_frame(8 * MIB)[:-1],
        b"",
    ],
    ids=["size not told", "size told", "told too small", "told too large", "cut off", "nothing"],
)
def test_a_frame_that_would_fill_the_memory_is_quarantined_alone(frame: bytes) -> None:
    digests = Digests("memory://")
    store(digests, "bomb", b"zstd/1 " + frame)
    digests.add("t", 1, key="flat", now=1)

    assert delivered(digests) == {"flat"}

    (letter,) = digests.dead_letters()
    assert "the codec zstd/1 can't decode it" in letter.reason
    assert "JSON" not in letter.reason


def outcome(seal: Callable[[Any], bytes], value: Any) -> bytes | str:
    try:
        return seal(value)
    except InvalidRecord as error:
        return str(error)


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
LIMITS = [
    *("[" * depth + "]" * depth for depth in (63, 64, 65, 66, 200)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (63, 64, 65, 66)),
    *(f'"{"a" * size}"' for size in (VALUE_BYTES - 3, VALUE_BYTES - 2, VALUE_BYTES - 1, records.VALUE_SIZE)),
    *(f'"{"ü" * size}"' for size in (VALUE_BYTES // 2 - 1, VALUE_BYTES // 2)),
    *(str(number) for number in (2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**39)),
    *("-0.0", "-0", "1e308", "5e-324", "1E2", r'"\ud83d\ude00"', r'"[{\u0000"', "{}", "[]", '""', "null"),
]


@pytest.mark.parametrize("codec", ["json", "zstd", shouting])
@given(value=JSON_VALUES)
def test_a_value_that_was_decoded_is_sealed_as_any_other(codec: str | Shouting, value: object) -> None:
    sealer = Sealer(codec)
    try:
        decoded = msgspec.json.decode(json.dumps(value))
    except msgspec.DecodeError:
        return

    assert outcome(sealer.seal, Decoded(decoded)) == outcome(sealer.seal, decoded)


@pytest.mark.parametrize("codec", ["json", "zstd", shouting])
@pytest.mark.parametrize("text", LIMITS, ids=lambda text: f"{text[:8]}-{len(text)}")
def test_what_was_decoded_has_the_same_limits(codec: str | Shouting, text: str) -> None:
    sealer, decoded = Sealer(codec), msgspec.json.decode(text)

    assert outcome(sealer.seal, Decoded(decoded)) == outcome(sealer.seal, decoded)


def test_what_was_decoded_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = Sealer("json")
    monkeypatch.setattr(sealer._codec, "decode", pytest.fail)

    assert sealer.seal(Decoded({"a": [1]})) == b'json/1 {"a":[1]}'


class Loud(str):
    """A text that says it equals anything."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class Level(enum.IntEnum):
    LOW = 1


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.binary(max_size=9)),
    *(st.just(Loud("loud")), st.just(Level.LOW), st.just("\ud800"), st.just((1,)), st.just(2**64)),
)


@pytest.mark.parametrize("codec", ["json", "zstd"])
@example(value={"a": math.nan})
@example(value={"a": Loud("loud")})
@example(value={Loud("loud"): 1})
@example(value={"a": Level.LOW})
@example(value={1: 1})
@given(value=SCALARS | st.dictionaries(st.text() | st.just(Loud("loud")) | st.integers() | st.just("\ud800"), SCALARS))
def test_a_flat_value_is_stored_and_refused_as_it_is_inside_a_list(codec: str, value: object) -> None:
    """One inside a list is read back and compared."""
    sealer = Sealer(codec)
    alone, inside = (outcome(sealer.seal, each) for each in (value, [value]))

    assert type(alone) is type(inside)
    if isinstance(alone, bytes) and isinstance(inside, bytes):
        assert [repr(sealer.unseal(alone))] == [repr(each) for each in sealer.unseal(inside)]


def test_a_flat_value_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = Sealer("json")
    monkeypatch.setattr(sealer._codec, "decode", pytest.fail)

    assert sealer.seal({"a": 1, "b": "c", "d": None, "e": True}) == b'json/1 {"a":1,"b":"c","d":null,"e":true}'


class Masked(ZstdCodec):
    """A codec of one's own on top of a built-in one."""

    name = "masked/1"

    def encode(self, value: Any) -> bytes:
        return super().encode(value)[::-1]

    def decode(self, payload: bytes) -> Any:
        return super().decode(payload[::-1])


@pytest.mark.parametrize("value", ["secret", {"a": 1}, {"a": [1]}])
def test_a_codec_that_extends_a_built_in_one_encodes_every_value(value: object) -> None:
    sealer = Sealer(Masked())

    assert sealer.unseal(sealer.seal(value)) == value


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Both:
    left: Any
    right: Any


SHARING: dict[str, Callable[[Any], Any]] = {
    "lists": lambda part: [part, part],
    "dicts": lambda part: {"a": part, "b": part},
    "tuples": lambda part: Pair(part, part),
    "models": lambda part: Both(part, part),
}


@pytest.mark.parametrize("leaf", [1, "text", date(2024, 2, 29), float("nan")], ids=str)
@pytest.mark.parametrize("kind", SHARING)
@pytest.mark.parametrize("codec", ["json", "zstd"])
def test_a_value_that_shares_its_parts_is_refused_before_it_is_written(codec: str, kind: str, leaf: Any) -> None:
    """Sixty levels of two references each: it is small in memory, and written out it would never end."""
    value = leaf
    for _ in range(60):
        value = SHARING[kind](value)

    with pytest.raises(InvalidRecord):
        Sealer(codec).seal(value)


def test_a_value_that_shares_its_parts_and_is_small_is_accepted() -> None:
    part = {"who": "ada"}

    assert Sealer("json").seal([part] * 3) == b'json/1 [{"who":"ada"},{"who":"ada"},{"who":"ada"}]'
    assert Sealer("json").seal([date(2024, 2, 29)] * 2) == b'json/1 ["2024-02-29","2024-02-29"]'
