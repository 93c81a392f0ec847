"""Which bug an error is: one that fails under many paths is one subject of a digest, with a count."""

import logging
import sys
from http.client import responses
from types import FrameType
from typing import Any

from django.http import HttpRequest

from digestif.core.texts import in_one_line, reason_of, shortened_text
from digestif.integrations.handlers import (
    error_of,
    innermost_frame,
    is_application_file,
    is_of_the_application,
    place,
    place_of,
)

PART_LENGTH = 200  # characters of a message, a path or a route


def request_of(record: logging.LogRecord) -> Any:
    """Return the request that was logged, or else the one that this thread is answering; None without one."""
    found = getattr(record, "request", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(found, HttpRequest):
        if "request" in (*frame.f_code.co_varnames, *frame.f_code.co_cellvars):
            found = frame.f_locals.get("request")
        frame = frame.f_back
    return found if isinstance(found, HttpRequest) else None


def bug_of(record: logging.LogRecord, request: Any) -> dict[str, str]:
    """Return the fields by which a digest counts errors.

    `group` is the same for all errors of one bug. `title` adds the message. `example` is the path of the request, or
    without a request the text that was logged.
    """
    error = error_of(record)
    route = _short(getattr(getattr(request, "resolver_match", None), "route", None) or "")
    if error is not None and innermost_frame(error) is not None:
        group, title = _raised(error, route)
    elif hasattr(record, "status_code") and not is_application_file(record.pathname):
        group = title = _answered(record, route)
    else:
        group, title = _logged(record)
    return {"group": group, "title": title, "example": _short(record.getMessage() if request is None else request.path)}


def _raised(error: BaseException, route: str) -> tuple[str, str]:
    """Name an exception by its type and frame. If only libraries were running, the route tells bugs apart."""
    found = innermost_frame(error)
    assert found is not None
    where = place_of(found)
    if route and not is_of_the_application(found):
        where = f"{where} for {route}"
    return f"{type(error).__name__} in {where}", f"{_short(reason_of(error)).rstrip(': ')} in {where}"


def _answered(record: Any, route: str) -> str:
    """Name a response that a view returned with a status of failure, by its route."""
    reason = responses.get(record.status_code, f"Status {record.status_code}")
    return f"{reason} for {route}" if route else reason


def _logged(record: logging.LogRecord) -> tuple[str, str]:
    """Name a log call without an exception by its line."""
    where = place(record.pathname, record.lineno, record.funcName or "")
    template = record.msg if record.args and isinstance(record.msg, str) else record.levelname
    return f"{_short(template)} in {where}", f"{_short(record.getMessage())} in {where}"


def _short(text: str) -> str:
    return shortened_text(in_one_line(text), PART_LENGTH)
