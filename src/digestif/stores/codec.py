"""Codecs turn values into the bytes that are stored, and back. Each stored value begins with the name of its codec."""

import marshal
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import msgspec

from digestif.core.capacity import Stored
from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES, VALUE_DEPTH, VALUE_SIZE, check_value, is_deep, weigh
from digestif.core.texts import did_you_mean, reason_of, shortened
from digestif.dsn import load_attribute
from digestif.errors import ConfigError, InvalidRecord
from digestif.exports import explain_missing
from digestif.stores.json_form import json_form
from digestif.stores.json_text import decoded_size, least_size
from digestif.threads import on_fresh_stack


class LargeValue(InvalidRecord):
    """A value that is larger than the limit that is known here. The namespace may allow it."""

    def __init__(self, size: int, limit: int, *, is_least: bool = False) -> None:
        told = f"at least {size}" if is_least else f"{size}"
        hint = f"; a namespace allows up to {MOST_VALUE_BYTES} by the option value_bytes of its DSN"
        super().__init__(f"value: {told} bytes encoded, allowed are {limit}{hint if size <= MOST_VALUE_BYTES else ''}")
        self.size = size


@runtime_checkable
class Codec(Protocol):
    """Turns values into bytes and back, so that each reads back equal. May have a `name`, which is stored."""

    def encode(self, value: Any, /) -> bytes: ...
    def decode(self, payload: bytes, /) -> Any: ...


class JsonCodec:
    """Plain JSON, readable in the store."""

    name = "json/1"

    def __init__(self) -> None:
        self.encode_flat = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder().decode

    def encode(self, value: Any) -> bytes:
        text = self.encode_flat(value)
        if _may_be_deep(text) and is_deep(value):
            check_value(value)
        return text


def _may_be_deep(text: bytes) -> bool:
    """True if brackets are nested too deep, or brackets inside strings leave that open.

    Each round removes the innermost pairs, which costs next to nothing.
    """
    if len(text) <= 2 * VALUE_DEPTH:
        return False
    brackets = text.translate(_SQUARE, _NO_BRACKETS)
    for _ in range(VALUE_DEPTH):
        if not brackets:
            return False
        before = len(brackets)
        brackets = brackets.replace(b"[]", b"")
        if len(brackets) == before:
            return True
    return bool(brackets)


_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


class ZstdCodec:
    """JSON compressed with Zstandard, for values of a kilobyte and more."""

    name = "zstd/1"

    def __init__(self) -> None:
        self._json = JsonCodec()
        self._compress, self._decompress = _zstd()

    def encode(self, value: Any) -> bytes:
        return self._compressed(self._json.encode(value))

    def encode_flat(self, value: Any) -> bytes:
        return self._compressed(self._json.encode_flat(value))

    def _compressed(self, text: bytes) -> bytes:
        if len(text) > VALUE_SIZE:
            raise InvalidRecord(f"value: {len(text)} bytes before compression, allowed are {VALUE_SIZE}")
        return self._compress(text)

    def decode(self, payload: bytes) -> Any:
        return self._json.decode(self._decompress(payload))

    def expanded(self, payload: bytes) -> bytes:
        """Return the JSON text of a value."""
        return self._decompress(payload)


def _zstd() -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """Return functions to compress and decompress. The second has a limit: a few bytes may stand for gigabytes."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd

            return zstd.compress, partial(_expanded_by_python, zstd)
        import zstandard
    except ImportError as error:
        raise ConfigError(f"codec: zstd {explain_missing('zstandard', extra='zstd')}") from error
    return zstandard.compress, partial(_expanded, zstandard)


WINDOW_BITS = 23  # 8 MiB, which every decoder has to support: more would only cost memory


def _expanded(zstandard: Any, payload: bytes) -> bytes:
    claimed = zstandard.frame_content_size(payload)  # -1 if the frame does not say: then max_output_size is the limit
    if claimed > VALUE_SIZE:
        raise ValueError(f"{claimed} bytes decompressed, allowed are {VALUE_SIZE}")
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_BITS)
    return decompressor.decompress(payload, max_output_size=VALUE_SIZE)  # type: ignore[no-any-return]


def _expanded_by_python(zstd: Any, payload: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_BITS})
    text: bytes = decompressor.decompress(payload, max_length=VALUE_SIZE + 1)
    if len(text) > VALUE_SIZE:
        raise ValueError(f"more than {VALUE_SIZE} bytes decompressed, which are allowed")
    if not decompressor.eof:
        raise ValueError("it ends too early")
    return text


# Marks a timestamp of -0.0 at the head of the payload: not every store keeps the sign of a zero.
MINUS_ZERO = b"-"

JSON = JsonCodec.name.encode()
SHORT = 4096  # bytes of a stored value whose size in memory is estimated from few signs
OTHERS_GROW = 4  # times that a value of a codec that is not built in is larger than its stored bytes
BUILT_IN: dict[str, type[JsonCodec] | type[ZstdCodec]] = {"json": JsonCodec, "zstd": ZstdCodec}


class Decoded:
    """A value that `msgspec` has decoded from JSON. A built-in codec need not read it back to know that it can."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class JsonText:
    """The JSON text of a value, which is known to be valid. It is decoded only while it is sealed."""

    __slots__ = ("text",)

    def __init__(self, text: bytes | msgspec.Raw) -> None:
        self.text = text


class Sealer:
    """Encodes values with one codec, and decodes what that codec or a built-in one has encoded.

    `limit` is how many bytes an encoded value may have; the namespace may have raised it since.
    """

    def __init__(self, codec: str | Codec, *, limit: int = VALUE_BYTES) -> None:
        self.limit = limit
        self._codec = load_codec(codec)
        self._checks = isinstance(self._codec, tuple(BUILT_IN.values()))  # values by itself
        is_own = type(self._codec) in BUILT_IN.values()  # a subclass may encode in another way
        self._is_json = type(self._codec) is JsonCodec
        self._encode_flat = self._codec.encode_flat if is_own else None  # type: ignore[attr-defined]
        self._prefix = codec_name(self._codec).encode() + b" "
        self._known: dict[bytes, Codec] = {self._prefix[:-1]: self._codec}

    def seal(self, value: Any) -> bytes:
        """Encode a value; InvalidRecord if it is too large (LargeValue), nested too deep, or would not read back equal.

        A built-in codec stores the JSON form of what is not JSON itself, by the table in docs/reference/values.md.
        """
        if type(value) is Decoded:
            return self._seal_decoded(value.value)
        try:
            if self._encode_flat and _is_flat(value):
                return self._prefixed(self._encode_flat(value))  # which need not be read back
            if type(value) is JsonText:
                self._refuse_large(value.text)
                return self._seal_decoded(msgspec.json.decode(value.text))
            is_plain = self._weigh(value)
            if self._encode_flat and not is_plain:
                return self._prefixed(self._encoded_form(value))
            if not self._checks:
                check_value(value)
            body = self._codec.encode(value)
            found = self._codec.decode(body)
            same = _is_same(found, value) if self._checks else found == value
        except InvalidRecord:
            raise
        except Exception as error:
            if isinstance(error, RecursionError):
                check_value(value)  # whose error says more
            if not self._checks:
                raise InvalidRecord(f"value: can't be encoded: {reason_of(error)}") from error
            same = False
        if same is not True:
            body = self._encoded_form(value)
        return self._prefixed(body)

    def is_too_large(self, text: bytes) -> bool:
        """True for the JSON text of a value that no namespace allows, whatever its escapes and blanks are."""
        return self._is_json and len(text) > MOST_VALUE_BYTES and least_size(text) > MOST_VALUE_BYTES

    def _refuse_large(self, text: bytes | msgspec.Raw) -> None:
        """LargeValue for a JSON text that is certain to be too large once it is encoded, before it is decoded."""
        given = bytes(text)
        if self._is_json and len(given) > self.limit and (size := least_size(given)) > self.limit:
            raise LargeValue(size, self.limit, is_least=True)

    def _weigh(self, value: Any) -> bool:
        """Refuse a value that would be too large, before it is encoded; True if it is all of JSON's own types."""
        most = MOST_VALUE_BYTES if self._is_json else VALUE_SIZE
        weight = weigh(value, most)
        if weight.room < 0 and self._is_json:
            raise LargeValue(most - weight.room, self.limit, is_least=True)
        if weight.room < 0 or weight.is_deep:
            check_value(value)
        return weight.is_plain

    def _seal_decoded(self, value: Any) -> bytes:
        if not self._checks:
            return self.seal(value)
        try:
            body = self._codec.encode(value)
        except InvalidRecord:
            raise
        except Exception:  # noqa: BLE001  # such as an integer beyond 64 bits, which has a form of its own
            return self.seal(value)
        return self._prefixed(body)

    def _prefixed(self, body: bytes) -> bytes:
        if len(body) > self.limit:
            raise LargeValue(len(body), self.limit)
        return self._prefix + body

    def _encoded_form(self, value: Any) -> bytes:
        """Encode the JSON form of a value that does not read back equal by itself."""
        if self._checks:
            form = json_form(value)
            self._weigh(form)
            body = self._codec.encode(form)
            if self._codec.decode(body) == form:
                return body
        raise InvalidRecord(f"value: {shortened(value)} would not read back equal")

    def unseal(self, payload: bytes | None) -> Any:
        """Decode a stored value; ValueError says why it can't be."""
        if payload is None:
            raise ValueError("the stored value is missing")
        if payload.startswith(self._prefix):  # the usual case
            name, codec, body = self._prefix[:-1], self._codec, payload[len(self._prefix) :]
        else:
            name, codec, body = self._parts(payload)
        try:
            return codec.decode(body)
        except MemoryError:
            raise  # the value is not to blame
        except RecursionError:
            outcome = on_fresh_stack(codec.decode, body)  # the caller's stack may be deep, not the value
        except Exception as error:
            raise _undecodable(name, error) from error
        if reason := outcome.exception():
            raise _undecodable(name, reason) from reason
        return outcome.result()

    def decoded_size(self, payload: bytes) -> int:
        """Estimate the bytes that a stored value takes in memory once it is decoded.

        Only the built-in codecs can be asked: values of others count as a few times their stored bytes.
        """
        if len(payload) < SHORT and payload.startswith(JSON):  # a closer look would cost more than it tells
            strings, items = payload.count(b'"'), payload.count(b",")
            return 4 * len(payload) + 32 * strings + 64 * items + 96 * payload.count(b"[") + 200 * payload.count(b"{")
        try:
            _, codec, body = self._parts(payload)
            if type(codec) is ZstdCodec:
                body = codec.expanded(body)
        except Exception:  # noqa: BLE001  # it can't be decoded either
            return len(payload)
        return decoded_size(body) if type(codec) in BUILT_IN.values() else OTHERS_GROW * len(payload)

    def json_text(self, payload: bytes | None) -> bytes | None:
        """Return the JSON text of a stored value, checked but not decoded; None if its codec does not make JSON.

        ValueError says why the text can't be read. Unlike `unseal`, this is quick for every value.
        """
        if payload is None:
            raise ValueError("the stored value is missing")
        name, codec, body = self._parts(payload)
        if type(codec) not in BUILT_IN.values():
            return None
        try:
            text = codec.expanded(body) if type(codec) is ZstdCodec else body
            _check_text(text)
            if not text.isascii():
                text.decode()
        except MemoryError:
            raise
        except Exception as error:
            raise _undecodable(name, error) from error
        return text

    def _parts(self, payload: bytes) -> tuple[bytes, Codec, bytes]:
        """The name of a payload's codec, the codec, and the bytes that it made."""
        name, _, body = payload.removeprefix(MINUS_ZERO).partition(b" ")
        return name, self._known.get(name) or self._built_in(name), body

    def _built_in(self, name: bytes) -> Codec:
        for codec in BUILT_IN.values():
            if name == codec.name.encode():
                self._known[name] = codec()
                return self._known[name]
        raise ValueError(f"it was stored by the codec {name[:80].decode(errors='replace')!r}, which is not configured")


_check_text = msgspec.json.Decoder(msgspec.Raw).decode


def _is_flat(value: object) -> bool:
    """True for a value without containers inside, all of it of types that JSON gives back as they are."""
    if type(value) is not dict:
        return type(value) in _EXACT
    for name, item in value.items():  # noqa: SIM110  # all() takes twice as long
        if type(name) is not str or type(item) not in _EXACT:
            return False
    return True


_EXACT = frozenset((str, int, bool, type(None)))  # a float may be NaN


def _is_same(found: Any, value: Any) -> bool:
    """Compare a decoded value with the given one, by type and content. ValueError if that has a part of another type.

    An `==` would ask the `__eq__` of a subclass, which may say anything. This costs less than to look at each part.
    """
    return marshal.dumps(found, PLAIN) == marshal.dumps(value, PLAIN)


PLAIN = 2  # the last version of marshal that writes equal texts alike, interned or not


def _undecodable(name: bytes, error: BaseException) -> ValueError:
    return ValueError(f"the codec {name.decode(errors='replace')} can't decode it: {reason_of(error)}")


def mark_timestamp(payload: bytes, timestamp: float) -> bytes:
    """Return the payload of a record with this timestamp."""
    return MINUS_ZERO + payload if timestamp == 0 and math.copysign(1, timestamp) < 0 else payload


def read_timestamp(record: Stored) -> float:
    """Return the timestamp of a stored record, to the last bit."""
    return -0.0 if record.payload is not None and record.payload.startswith(MINUS_ZERO) else record.timestamp


def load_codec(codec: str | Codec) -> Codec:
    """Return the codec for a built-in name, `module:attribute`, or an object with encode and decode."""
    if isinstance(codec, str):
        return _named_codec(codec)
    if not isinstance(codec, Codec):
        raise ConfigError(f"codec: {shortened(codec)} has no encode and decode")
    return codec


def _named_codec(name: str) -> Codec:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if ":" not in name:
        raise ConfigError(f"codec: no codec is named {name!r}{did_you_mean(name, list(BUILT_IN))}")
    found = _imported(name)
    codec = load_codec(found() if isinstance(found, type) else found)
    return codec if hasattr(codec, "name") else _Renamed(codec, name)


def codec_name(codec: Codec) -> str:
    """Return the name that is stored with each value."""
    name = str(getattr(codec, "name", f"{type(codec).__module__}:{type(codec).__qualname__}"))
    if not name or name.startswith("-") or any(character.isspace() for character in name):
        raise ConfigError(f"codec: its name {name!r} is empty, has white space or begins with a hyphen")
    return name


class _Renamed:
    """A codec given as `module:attribute`, stored under that name."""

    def __init__(self, codec: Codec, name: str) -> None:
        self.name = name
        self.encode = codec.encode
        self.decode = codec.decode


def _imported(path: str) -> Any:
    try:
        return load_attribute(path)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"codec: {path} can't be imported: {error}") from error
