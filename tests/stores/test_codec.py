"""Values pass through a codec that is named in each of them."""

import sys
from typing import Any

import pytest

from digestif import ConfigError, Digests, InvalidRecord, Policy
from digestif.stores.codec import Sealer

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

    with pytest.raises(ConfigError, match=r"pip install 'digestif\[zstd\]'"):
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
