"""Who sends a request."""

from collections.abc import Mapping

from digestif.service.security.tokens import LOCAL, Principal
from digestif.service.service import Service

BEARER = b"bearer "


def principal_of(service: Service, headers: Mapping[bytes, bytes]) -> Principal | None:
    """The holder of the token in the header Authorization; None if there is none, or it is unknown."""
    if not service.tokens:
        return LOCAL
    given = headers.get(b"authorization")
    if given is None or given[: len(BEARER)].lower() != BEARER:
        return None
    return service.tokens.find(given[len(BEARER) :].strip().decode("utf-8", "surrogateescape"))
