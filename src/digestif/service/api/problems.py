"""Problems: what went wrong, as RFC 9457 describes it, and which error of the engine is which problem."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from msgspec import Struct

from digestif.core.texts import message_of
from digestif.errors import (
    Busy,
    ConfigError,
    DigestifError,
    InvalidRecord,
    InvalidState,
    Overloaded,
    StaleLease,
    StoreError,
    StoreUnavailable,
)

CONTENT_TYPE = b"application/problem+json"
RETRY_AFTER = 2  # seconds, after which a store that could not be reached is tried again


class Fault(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with a request."""

    path: str  # to the value in the body, such as $.timestamp, or the name of a parameter
    detail: str


class ProblemDocument(Struct, frozen=True, omit_defaults=True):
    """The body of an answer that is a problem."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    instance: str = ""
    errors: Sequence[Fault] = ()


class Problem(Exception):
    """Ends a request with this answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        closes: bool = False,
        kind: str = "about:blank",
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["retry-after"] = str(max(1, round(retry_after)))
        if closes:  # the rest of the request is not read
            self.headers["connection"] = "close"

    def document(self, instance: str = "") -> ProblemDocument:
        return ProblemDocument(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            type=self.kind,
            instance=instance,
            errors=self.errors,
        )


STATUSES: Mapping[type[DigestifError], HTTPStatus] = {  # the first that fits; AccessDenied is raised by clients only
    InvalidRecord: HTTPStatus.UNPROCESSABLE_ENTITY,
    ConfigError: HTTPStatus.UNPROCESSABLE_ENTITY,
    Busy: HTTPStatus.CONFLICT,
    InvalidState: HTTPStatus.CONFLICT,
    StaleLease: HTTPStatus.CONFLICT,
    Overloaded: HTTPStatus.INSUFFICIENT_STORAGE,
    StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
}

DETAILS = {  # of a store: its own words may name servers and users
    HTTPStatus.SERVICE_UNAVAILABLE: "the store can't be reached or written now, and what was asked may have been done "
    "or not; send it again, what adds records with the Idempotency-Key of the first time",
    HTTPStatus.INSUFFICIENT_STORAGE: "the store refuses to grow; deliveries go on",
}


def problem_of(error: DigestifError) -> Problem:
    """The problem that an error of the engine is for the caller."""
    status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    is_store = status in DETAILS
    detail = DETAILS[status] if is_store else message_of(error)
    kind = f"urn:digestif:error:{type(error).__name__}"
    return Problem(status, detail, retry_after=RETRY_AFTER if is_store else None, kind=kind)
