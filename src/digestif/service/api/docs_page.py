"""The page at /docs: the description of the API for people, which looks like the dashboard and loads nothing else."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from digestif.service.api.openapi import describe
from digestif.service.api.routes import Route
from digestif.service.dashboard.rendering import rendered

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Content(Struct, frozen=True):
    """A kind of body, and the type of what is in it: its text, and its name if the page describes it."""

    kind: str
    shown: str
    type_name: str | None


class Reply(Struct, frozen=True):
    """An answer of an operation."""

    status: str
    phrase: str
    contents: Sequence[Content]


class Operation(Struct, frozen=True):
    """An operation, with its good answers before its errors."""

    id: str
    method: str
    path: str
    summary: str
    scope: str | None
    parameters: Sequence[tuple[str, str]]
    bodies: Sequence[Content]
    answers: Sequence[Reply]
    errors: Sequence[Reply]


def page(routes: Sequence[Route]) -> str:
    document = describe(routes)
    schemas = sorted(document["components"]["schemas"].items())
    return rendered(
        "docs.html",
        description=document["info"]["description"],
        operations=[_operation(route, document) for route in routes],
        types=[(name, json.dumps(kind, indent=2, ensure_ascii=False)) for name, kind in schemas],
    )


def _operation(route: Route, document: Mapping[str, Any]) -> Operation:
    described = document["paths"][route.path][route.method.lower()]
    replies = [
        Reply(status, answer["description"], _contents(answer["content"]))
        for status, answer in sorted(described["responses"].items())
    ]
    return Operation(
        id=described["operationId"],
        method=route.method,
        path=route.path,
        summary=route.summary,
        scope=None if route.scope is None else str(route.scope),
        parameters=[
            (each["name"], f"{each['in']}, {_content('', each['schema']).shown}") for each in described["parameters"]
        ],
        bodies=_contents(described.get("requestBody", {}).get("content", {})),
        answers=[reply for reply in replies if reply.status < "400"],
        errors=[reply for reply in replies if reply.status >= "400"],
    )


def _contents(found: Mapping[str, Any]) -> list[Content]:
    return [_content(kind, content["schema"]) for kind, content in found.items()]


def _content(kind: str, schema: Mapping[str, Any]) -> Content:
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[1]
        return Content(kind, name, name)
    if schema.get("type") == "array":
        item = _content(kind, schema.get("items", {}))
        return Content(kind, f"list of {item.shown}", item.type_name)
    return Content(kind, str(schema.get("type", "any")), None)
