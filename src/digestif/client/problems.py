"""Which error an answer of the service is."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from digestif.errors import (
    AccessDenied,
    Busy,
    ConfigError,
    DigestifError,
    InvalidRecord,
    InvalidState,
    Overloaded,
    StaleLease,
    StoreUnavailable,
)

LONGEST_WAIT = 3600.0  # seconds that a service may ask for


class Fault(Struct, frozen=True):
    """One thing that is wrong with a request."""

    path: str
    detail: str


class ProblemDocument(Struct, frozen=True):
    """The body of an answer that is a problem."""

    detail: str
    title: str = ""
    type: str = ""
    errors: Sequence[Fault] = ()

    @property
    def text(self) -> str:
        return "; ".join([self.detail, *(f"{fault.path}: {fault.detail}" for fault in self.errors)])


_decode = msgspec.json.Decoder(ProblemDocument).decode
NAMED = {kind.__name__: kind for kind in (Busy, ConfigError, InvalidRecord, InvalidState, StaleLease)}
BY_STATUS: Mapping[int, type[DigestifError]] = {
    401: AccessDenied,
    403: AccessDenied,
    409: InvalidState,
    413: InvalidRecord,
    429: Overloaded,
    507: Overloaded,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes, *, adds: bool) -> DigestifError:
    """The error for an answer that is no success."""
    if 300 <= status < 400:
        return ConfigError(f"the service redirects to {headers.get('location', 'nowhere')!r}: give that address")
    try:
        problem = _decode(body)
    except msgspec.MsgspecError:
        problem = ProblemDocument(f"it was answered with {status}, and not by a digestif service, it seems")
    return kind_of(status, problem, adds=adds)(problem.text)


def kind_of(status: int, problem: ProblemDocument, *, adds: bool) -> type[DigestifError]:
    """The class that the problem names, else the one for its status."""
    named = NAMED.get(problem.type.rpartition(":")[2])
    if named is not None:
        return named
    if status >= 500 and status != 507:
        return StoreUnavailable
    return BY_STATUS.get(status) or (InvalidRecord if adds and status in (400, 422) else ConfigError)


def wait_of(header: str | None) -> float | None:
    """The seconds to wait by a Retry-After header; None if it is missing or gives a date."""
    if header is None or not re.fullmatch(r"\d{1,9}", header.strip(), re.ASCII):
        return None
    return min(float(header), LONGEST_WAIT)
