"""Bodies that are made to cost much: what they cost the event loop, the interpreter and the memory (fact 89)."""

import sys
import tracemalloc
from contextlib import suppress
from time import thread_time
from types import FrameType

import msgspec
import pytest

from digestif.errors import InvalidRecord
from digestif.service.api.bodies import QUICK, SMALL
from digestif.service.api.problems import Problem
from digestif.service.api.record_texts import LINES, MANY, ONE, Form, additions
from digestif.service.settings import Limits
from digestif.service.turns import finished
from digestif.stores.codec import JsonText, LargeValue, Sealer
from tests.service.harness import Client, Reply, serving
from tests.service.pauses import MOST, measured, tidied_up

BODY = (8 << 20) - 1000
VALUE = 250 << 10
ADD, ADD_MANY, NDJSON = "/v1/timelines/t/records", "/v1/records", "application/x-ndjson"


def filled(unit: bytes, size: int = BODY) -> bytes:
    return b",".join([unit] * (size // (len(unit) + 1)))


def one(value: bytes) -> bytes:
    return b'{"value":%b}' % value


def many(value: bytes, size: int = BODY) -> bytes:
    return b"[%b]" % filled(b'{"timeline":"t","value":%b}' % value, size - 100)


ALONE = {  # bodies of one record, and their answers
    "numbers beyond the fast way": (one(b"[%b]" % filled(b"1e308")), 422),
    "numbers near zero": (one(b"[%b]" % filled(b"5e-324")), 422),
    "numbers between two others": (one(b"[%b]" % filled(b"1.234567890123456820834020969844661323540e250")), 422),
    "numbers beyond, in disguise": (one(b"[%b]" % filled(b"1e%b308" % (b"0" * 30))), 422),
    "numbers halfway between two floats": (one(b"[%b]" % b",".join([b"9007199254740993.0"] * 99_000)), 422),
    "short ones of these": (one(b"[%b]" % b",".join([b"1e23"] * 99_000)), 422),
    "numbers beyond 64 bits": (one(b"[%b]" % b",".join([b"1" * 40] * 99_000)), 422),
    "objects beside a number beyond 64 bits": (
        one(b"[%b,%b]" % (b"1" * 30, b",".join([b'{"a":{"b":1}}'] * 16_000))),
        202,
    ),
    "a number that does not end": (one(b"1" * BODY), 422),
    "small numbers": (one(b"[%b]" % filled(b"1")), 422),
    "arrays": (one(b"[%b]" % filled(b"[]")), 422),
    "nested arrays": (one(b"[%b]" % filled(b"[" * 60 + b"]" * 60)), 422),
    "objects": (one(b"[%b]" % filled(b'{"a":1}')), 422),
    "objects with an escaped colon": (one(b"[%b]" % filled(b'{"a":"\\u003a"}')), 422),
    "a lone surrogate at the end": (one(b'"%b\\ud800"' % (b"\\n" * (BODY // 2 - 20))), 422),
    "a shorter text with a lone surrogate": (one(b'"%b\\ud800"' % (b"\\n" * (1 << 18))), 400),
    "line ends": (one(b'"%b"' % (b"\\n" * 2_050_000)), 422),
    "line ends beside a number beyond 64 bits": (one(b'[%b,"%b"]' % (b"1" * 30, b"\\n" * 1_040_000)), 422),
    "a field of line ends": (b'{"value":1,"%b":1}' % (b"\\n" * 2_050_000), 422),
    "a name again and again": (b"{%b}" % filled(b'"value":[]'), 422),
    "a text": (one(b'"%b"' % (b"a" * (BODY - 100))), 422),
    "backslashes": (one(b'"%b"' % (b"\\\\" * (BODY // 2 - 100))), 422),
    "blanks": (one(b" " * (BODY - 100) + b"1"), 422),
    "blanks before it": (b" " * (BODY - 100) + one(b"1"), 422),
    "a large value": (one(b"[%b]" % filled(b'"%b"' % (b"a" * 100), VALUE)), 202),
    "an open array": (b"[" * BODY, 422),
    "nothing but quotes": (b'"' * BODY, 422),
}
TOGETHER = {  # bodies of many records, and their answers
    "small records": (many(b"1"), 413),
    "large texts": (many(b'"%b"' % (b"a" * VALUE)), 202),
    "values that are allowed": (many(b"[%b]" % filled(b"[]", 80_000), 1 << 20), 202),
    "large objects": (many(b"[%b]" % filled(b'{"a":"\\u003a"}', VALUE), 1 << 20), 202),
    "numbers beyond the fast way": (many(b"[%b]" % filled(b"1e308", VALUE)), 422),
    "a name twice in the last": (many(b'"%b"' % (b"a" * VALUE))[:-1] + b',{"timeline":"t","value":1,"value":2}]', 422),
    "no end": (many(b'"%b"' % (b"a" * VALUE))[:-1], 400),
    "a comma too many": (many(b'"%b"' % (b"a" * VALUE))[:-1] + b",]", 400),
    "one long element": (b"[%b]" % one(b"[%b]" % filled(b"[]")), 422),
}
TOGETHER_IN_LINES = {
    "small records": (b"\n".join([b'{"timeline":"t","value":1}'] * (BODY // 27)), 413),
    "empty lines": (b"\n" * BODY, 202),
    "large texts": (b"\n".join([b'{"timeline":"t","value":"%b"}' % (b"a" * VALUE)] * 32), 202),
    "one long line": (b'{"timeline":"t","value":[%b]}' % filled(b"[]"), 422),
    "no objects": (b"1\n" * (BODY // 2), 422),
}
CASES = [
    *((ONE, name, *case) for name, case in ALONE.items()),
    *((MANY, name, *case) for name, case in TOGETHER.items()),
    *((LINES, name, *case) for name, case in TOGETHER_IN_LINES.items()),
]
IDS = [f"{'one' if form is ONE else 'many' if form is MANY else 'lines'}: {name}" for form, name, _, _ in CASES]


def sent(client: Client, form: Form, body: bytes, **headers: str) -> Reply:
    if form is LINES:
        headers["Content-Type"] = NDJSON
    return client.post(ADD if form is ONE else ADD_MANY, body, headers=headers)


COSTLIEST = {"numbers beyond the fast way", "arrays", "objects with an escaped colon", "a lone surrogate at the end"}
MARKED = [
    pytest.param(*case, id=name, marks=() if case[1] in COSTLIEST else pytest.mark.long)
    for name, case in zip(IDS, CASES, strict=True)
]


@pytest.mark.parametrize(("form", "name", "body", "status"), MARKED)
def test_no_body_keeps_the_event_loop(form: Form, name: str, body: bytes, status: int) -> None:
    with measured() as pauses, serving() as (client, _):
        reply = sent(client, form, body)

    assert reply.status == status, (name, reply.body[:300])
    assert pauses.longest < MOST, pauses


SHAPES = [
    b"1",
    b"[]",
    b"[" * 60 + b"]" * 60,
    b'{"a":1}',
    b'{"a":"\\u003a"}',
    '"é"'.encode(),
    b"1e308",
    b"1" * 40,
    b"1e23",
]


@pytest.mark.parametrize("size", [SMALL, QUICK])
def test_a_body_that_is_read_on_the_event_loop_keeps_it_for_a_few_milliseconds(size: int) -> None:
    with measured() as pauses, serving() as (client, _):
        for shape in SHAPES:
            value = b"[%b]" % filled(shape, size - 100)
            sent(client, ONE, one(value))
            sent(client, ONE, b'{"key":null,"value":%b}' % value)
            sent(client, MANY, b'[{"timeline":"t","value":%b}]' % value)

    assert pauses.longest < MOST, pauses


def test_a_policy_or_a_preference_has_a_short_body(client: Client) -> None:
    body = {"policy": "every day at 09:00" + " " * (64 << 10)}

    assert client.send("PUT", "/v1/timelines/t/policy", body).status == 413


class Calls:
    """Measures how long single calls of built-in functions keep the interpreter, in processor time."""

    def __init__(self) -> None:
        self.longest, self.name = 0.0, "none"
        self._begun = 0.0

    def __call__(self, _: FrameType, event: str, function: object) -> None:
        if event == "c_call":
            self._begun = thread_time()
        elif event in ("c_return", "c_exception") and (took := thread_time() - self._begun) > self.longest:
            self.longest, self.name = took, getattr(function, "__qualname__", repr(function))


@pytest.mark.long
@pytest.mark.parametrize("codec", ["json", "zstd"])
@pytest.mark.parametrize(("form", "name", "body", "status"), CASES, ids=IDS)
def test_no_call_keeps_the_interpreter_while_a_body_is_read(
    form: Form, name: str, body: bytes, status: int, codec: str
) -> None:
    """A thread that makes short calls lets the event loop run every few milliseconds."""
    del name, status
    calls = Calls()
    sealer = Sealer(codec, limit=1 << 20)
    with tidied_up(), suppress(Problem, InvalidRecord):
        sys.setprofile(calls)
        try:
            for addition in finished(additions(body, form, "t", Limits(), sealer)):
                sealer.seal(addition.value)
        finally:
            sys.setprofile(None)

    assert calls.longest < MOST, calls.name


@pytest.mark.long
@pytest.mark.parametrize(("form", "name", "body", "status"), CASES, ids=IDS)
def test_a_body_takes_little_more_memory_than_its_bytes(form: Form, name: str, body: bytes, status: int) -> None:
    del name, status
    tracemalloc.start()
    try:
        finished(additions(body, form, "t", Limits(), Sealer("json")))
    except Problem:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 3 * BODY


@pytest.mark.parametrize("fill", [10, 300])
def test_a_long_body_means_what_a_short_one_means(client: Client, fill: int) -> None:
    """The bodies that are read in one step, and those that are read in many."""
    values = [{"a": ["x" * 1000, number, None, 0.5], "b:": "\u003a \\", "ü": {}} for number in range(fill)]
    records = [{"timeline": "t", "value": value, "key": f"k{number}"} for number, value in enumerate(values)]
    keyed = [{**record, "timeline": "u"} for record in records]

    array = client.post(ADD_MANY, records)
    lines = client.post(ADD_MANY, b"\n".join(map(encode, keyed)), headers={"Content-Type": NDJSON})
    alone = client.add("v", values)

    assert (array.status, lines.status) == (202, 202)
    assert [result["key"] for result in array.json()["results"]] == [record["key"] for record in records]
    for timeline in "tu":
        found = client.get(f"/v1/timelines/{timeline}/records?limit=500").json()["records"]
        assert {record["key"]: record["value"] for record in found} == {
            f"k{n}": value for n, value in enumerate(values)
        }
    assert alone.status == (202 if fill == 10 else 422)


def test_in_a_long_body_the_wrong_record_is_named(client: Client) -> None:
    records = [{"timeline": "t", "value": "x" * 1000} for _ in range(300)]
    paths = []
    for wrong in ({"timeline": "t", "value": ["huge"]}, {"timeline": 5, "value": 1}):
        text = encode([*records, wrong, *records]).replace(b'"huge"', b"1e999")
        paths.append(client.post(ADD_MANY, text).json()["errors"][0]["path"])
    costly = client.post(ADD_MANY, encode([*records, {"timeline": "t", "value": [[]] * 40_000}, *records]))

    assert paths == ["$[300].value[0]", "$[300].timeline"]
    assert (costly.status, costly.json()["detail"].split(":")[0]) == (422, "$[300].value")


def test_the_answer_to_an_unknown_field_is_short_however_long_its_name_is(client: Client) -> None:
    long = client.post(ADD, b'{"value":1,"%b":1}' % (b"a" * (1 << 20)))
    path = client.post(ADD, b'{"value":1,"%b":1}' % (b" - at `" * 1000))

    assert (long.status, path.status) == (422, 422)
    assert "unknown field `aaa" in long.json()["errors"][0]["detail"]
    assert len(long.body) + len(path.body) < 2000


def test_a_long_body_with_a_key_is_repeated_like_a_short_one(client: Client) -> None:
    body = encode([{"timeline": "t", "value": "x" * 1000} for _ in range(300)])

    first, again = (client.post(ADD_MANY, body, headers={"Idempotency-Key": "long"}) for _ in range(2))

    assert (first.status, first.body) == (202, again.body)
    assert client.get("/v1/ledger").json()["accepted"] == 300


def test_a_value_that_is_too_large_in_a_long_body_is_refused_alone(client: Client) -> None:
    values = ["x" * 1000, "x" * (300 << 10), "x"]

    reply = client.post(ADD_MANY, [{"timeline": "t", "value": value} for value in values])

    assert (reply.status, reply.json()["accepted"]) == (207, 2)
    assert "value_bytes" in reply.json()["results"][1]["problem"]["detail"]


@pytest.mark.parametrize("unit", [b"a", b"\\n", "é".encode()])
def test_a_value_that_is_far_too_large_is_never_decoded(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = Sealer("json")
    texts = [b'"%b"' % (unit * (size // len(unit))) for size in (300 << 10, 2 << 20)]
    body = b"[%b]" % b",".join(b'{"timeline":"t","value":%b}' % text for text in [b"1", texts[1], b"2"])
    found = finished(additions(body, MANY, "t", Limits(), sealer))
    monkeypatch.setattr(msgspec.json, "decode", lambda _: pytest.fail("decoded"))

    for text in texts:
        with pytest.raises(LargeValue, match=r"at least \d+ bytes encoded, allowed are 262144"):
            sealer.seal(JsonText(text))
    assert [len(addition.value.text) for addition in found] == [1, len(texts[1]), 1]


def test_a_value_that_shrinks_is_accepted_however_long_its_text_is(client: Client) -> None:
    values = [b'"%b"' % (b"\\u0041" * 250_000), b'"%b"' % (b"\\u0448" * 120_000), b"[1,%b2]" % (b" " * 2_000_000)]
    values += [b'"%b"' % (b"\\/" * 250_000), b'["%b"]' % (b"\\\\u" * 80_000)]

    assert [client.post(ADD, one(value)).status for value in values] == [202] * len(values)


encode = msgspec.json.Encoder().encode
