"""Endpoints that describe the API itself."""

from functools import cache

from digestif.service.api.docs_page import POLICY, page
from digestif.service.api.openapi import describe
from digestif.service.api.requests import Answer, Request, answer


async def openapi(_: Request) -> Answer:
    return _document()


async def docs(_: Request) -> Answer:
    return _page()


@cache
def _document() -> Answer:
    from digestif.service.api.endpoints import ROUTES

    return answer(200, describe(ROUTES))


@cache
def _page() -> Answer:
    from digestif.service.api.endpoints import ROUTES

    return Answer(
        200,
        page(ROUTES).encode(),
        b"text/html; charset=utf-8",
        ((b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"no-referrer")),
    )
