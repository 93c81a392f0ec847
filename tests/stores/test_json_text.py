"""JSON text that is judged before it is decoded."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif.stores import json_text
from digestif.stores.codec import Sealer
from digestif.stores.json_text import (
    BETWEEN_LINES,
    BETWEEN_OBJECTS,
    MOST_PRECISE,
    Costly,
    Counts,
    decoded_size,
    exact_counts,
    least_size,
    outside_strings,
    pieces,
    refuse_costly,
)

LENGTH = 64 * 1024


def filled(unit: str) -> bytes:
    """An array of many such elements."""
    return f"[{','.join([unit] * (LENGTH // (len(unit.encode()) + 1)))}]".encode()


SHAPES = {
    **{unit: filled(unit) for unit in ("1", "[]", "{}", "[[]]", '{"a":1}', '""', '"a"', "1.5", "300", "[1]", "null")},
    **{unit: filled(unit) for unit in ('"é"', '"ш"', '"😀"', '"ab\\n"', '"\\ud83d\\ude00"', "1" * 30, "[1,2,3,4,5]")},
    "nested arrays": filled("[" * 62 + "]" * 62),
    "nested objects": filled('{"":' * 62 + "1" + "}" * 62),
    "names": json.dumps({str(number): number for number in range(6_000)}).encode(),
    "events": json.dumps(
        [{"title": f"Build {number} failed", "n": number, "by": None} for number in range(999)]
    ).encode(),
    "ASCII": b'"%b"' % (b"a" * LENGTH),
    "one wide character": f'"{"a" * LENGTH}ш"'.encode(),
    "one of the widest": f'"{"a" * LENGTH}😀"'.encode(),
    "one escaped": b'"%b\\ud83d\\ude00"' % (b"a" * LENGTH),
    "signs in a string": b'"%b"' % (b"[,]{:}" * (LENGTH // 6)),
    "a small value": b'{"title":"Build 7 failed","n":7}',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimated_size_of_a_decoded_value_is_hardly_ever_lower_than_the_true_one(shape: str) -> None:
    text = SHAPES[shape]
    tracemalloc.start()
    try:
        value = msgspec.json.decode(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value is not None

    assert decoded_size(text) >= peak / 1.5
    assert decoded_size(text) <= 15 * max(peak, len(text))


def test_signs_inside_of_strings_make_no_value_large() -> None:
    assert decoded_size(SHAPES["signs in a string"]) < 2 * LENGTH


def test_no_value_is_smaller_than_the_least_size_of_its_text() -> None:
    alphabet = 'a\\"/\n\x00 é😀u'

    @given(st.recursive(st.text(alphabet=alphabet), lambda inner: st.dictionaries(st.text(alphabet=alphabet), inner)))
    def check(value: object) -> None:
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
            escaped = text.replace("/", "\\/").replace("a", "\\u0061")
            assert least_size(escaped.encode()) <= len(msgspec.json.encode(value))

    check()


ESCAPES = st.text(alphabet='a\\"[]{}:, é', max_size=20)
VALUES = st.recursive(ESCAPES | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ESCAPES, inner))


@given(VALUES, st.integers(min_value=2, max_value=30))
def test_signs_are_counted_outside_of_strings_wherever_the_slices_end(value: object, size: int) -> None:
    text = json.dumps(value).encode()
    whole = b"".join(outside_strings(text))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "SLICE", size)
        found = exact_counts(text)

    assert found == counted(value) == exact_counts(text)
    assert b'"' not in whole


def counted(value: object) -> Counts:
    """The signs that a value is written with."""
    inner: list[object] = []
    if isinstance(value, dict):
        inner, own = list(value.values()), Counts(0, 1, max(0, len(value) - 1), len(value))
    elif isinstance(value, list):
        inner, own = value, Counts(1, 0, max(0, len(value) - 1), 0)
    else:
        own = Counts()
    for part in inner:
        own = Counts(*map(sum, zip(own, counted(part), strict=True)))
    return own


@pytest.mark.parametrize("codec", ["json", "zstd"])
def test_the_size_of_a_stored_value_is_that_of_its_json(codec: str) -> None:
    sealer = Sealer(codec)
    value: list[list[int]] = [[]] * 10_000
    text = msgspec.json.encode(value)

    assert sealer.decoded_size(sealer.seal(value)) == decoded_size(text)
    assert Sealer("json").decoded_size(b"-" + sealer.seal(value)) == decoded_size(text)


def test_a_stored_value_that_is_damaged_or_of_a_codec_of_ones_own_counts_by_its_bytes() -> None:
    class Own:
        name = "own"

        def encode(self, value: object) -> bytes:
            return json.dumps(value).encode()

        def decode(self, payload: bytes) -> object:
            return json.loads(payload)

    assert Sealer(Own()).decoded_size(b"own [[],[]]") == 4 * len(b"own [[],[]]")
    assert Sealer("json").decoded_size(b"zstd/1 damaged") == len(b"zstd/1 damaged")
    assert Sealer("json").decoded_size(b"unknown [[],[]]") == len(b"unknown [[],[]]")


FEW = st.recursive(
    ESCAPES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ESCAPES, inner, max_size=3), max_leaves=4
)
RECORDS = st.lists(st.dictionaries(ESCAPES, FEW, min_size=1, max_size=2), min_size=1, max_size=6)


@given(RECORDS, st.integers(min_value=2, max_value=30), st.sampled_from([None, 1]))
def test_an_array_and_lines_are_cut_only_between_elements(records: list[object], size: int, indent: int | None) -> None:
    array = json.dumps(records, indent=indent).encode()
    lines = b"\n".join(json.dumps(record, indent=indent).encode() for record in records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "SLICE", size)
        patch.setattr(json_text, "PIECE", 2 * size)
        parts = list(pieces(array, between=BETWEEN_OBJECTS, level=1))
        some = list(pieces(lines, between=BETWEEN_LINES))

    assert b",".join(parts) == array
    inner = [b"[%b]" % part for part in b"\0".join(parts)[1:-1].split(b"\0")]
    assert [record for part in inner for record in json.loads(part)] == records
    assert b"\n".join(some) == lines
    assert [record for part in some for record in json_lines(part)] == records


def json_lines(text: bytes) -> list[object]:
    return list(msgspec.json.Decoder().decode_lines(text))


def array_of(number: bytes, times: int) -> bytes:
    return b"[%b]" % b",".join([number] * times)


@pytest.mark.parametrize(
    "number",
    [b"1e308", b"-1E+308", b"5e-324", b"1.5e0000000300", b"0.1e309", b"1.234567890123456820834020969844661323e22"],
)
def test_more_than_a_hundred_numbers_that_take_long_are_refused(number: bytes) -> None:
    refuse_costly(array_of(number, 100))

    with pytest.raises(Costly, match="send them as strings"):
        refuse_costly(array_of(number, 101))


@pytest.mark.parametrize(
    "number",
    [
        b"9007199254740993.0",
        b"9.007199254740993e15",
        b"562949953421312.0625",
        b"1.000000000000000111022",
        b"1e23",
        b"-1E+023",
        b"90071992547409930e-1",
        b"1" * 39,
    ],
)
def test_many_thousands_of_numbers_between_two_floats_or_beyond_64_bits_are_refused(number: bytes) -> None:
    refuse_costly(array_of(number, MOST_PRECISE))

    with pytest.raises(Costly, match="send them as strings"):
        refuse_costly(array_of(number, MOST_PRECISE + 10))


@pytest.mark.parametrize("number", [b"0.12345678901234567", b"-123456.78901234567", b"1.5e-07", b"9007199254740993"])
def test_usual_numbers_are_allowed_as_often_as_others(number: bytes) -> None:
    refuse_costly(array_of(number, 99_999))


@pytest.mark.parametrize(
    "number", [b"1e22", b"1e250", b"1.2345678901234567e-250", b"0.12345678901234567890123456", b"1" * 40]
)
def test_numbers_that_are_read_fast_are_not_refused(number: bytes) -> None:
    refuse_costly(array_of(number, 1000))


def test_a_number_of_many_digits_is_refused_wherever_it_is() -> None:
    for before in range(60):
        with pytest.raises(Costly, match="40 digits"):
            refuse_costly(b"[" + b" " * (json_text.SLICE - before) + b"1" * 41 + b"]")


def test_numbers_in_strings_are_not_looked_at() -> None:
    refuse_costly(b'["%b"]' % (b"1e308," * 1000 + b"1" * 100))


@pytest.mark.parametrize(("unit", "most"), [(b"[]", 32_767), (b"1", 99_999)])
def test_a_value_of_too_many_parts_is_refused(unit: bytes, most: int) -> None:
    refuse_costly(array_of(unit, most))

    with pytest.raises(Costly, match="divide it"):
        refuse_costly(array_of(unit, most + 3))
