"""The description of the API in OpenAPI 3.1, made from the table of routes and the types in it."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from digestif.service.api.fields import KEY_SCHEMA
from digestif.service.api.problems import ProblemDocument
from digestif.service.api.routes import Route

TITLE = "Digestif"
PROBLEM = "application/problem+json"
REFERENCE = "#/components/schemas/{name}"
_VARIABLE = re.compile(r"{(\w+)}")


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """The description of these routes."""
    from digestif import __version__

    schemas, components = msgspec.json.schema_components(_types(routes), ref_template=REFERENCE)
    named = dict(zip(map(repr, _types(routes)), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "dgf_…"}},
        },
    }


DESCRIPTION = (
    "Keys of timelines and records are one percent-encoded segment of the path each: `a/b` is `a%2Fb`. "
    "Times are seconds since the epoch. Problems are as RFC 9457 describes them."
)


def _types(routes: Iterable[Route]) -> list[Any]:
    found: dict[str, Any] = {repr(ProblemDocument): ProblemDocument}
    for route in routes:
        for kind in (*route.answers.values(), route.body, route.query):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _operation(route: Route, named: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route, named, components), *_headers(route)],
        "responses": {**_problems(route, named), **_answers(route, named)},
        "security": [] if route.scope is None else [{"token": []}],
        "x-scope": route.scope,
    }
    if route.body is not None:
        kinds = {"application/json": {"schema": named[repr(route.body)]}}
        if route.lines:
            kinds["application/x-ndjson"] = {"schema": {"type": "string"}}
        described["requestBody"] = {"required": route.needs_body, "content": kinds}
    return described


def operation_id(route: Route) -> str:
    return f"{route.method.lower()}{re.sub(r'[^a-z0-9]+', '_', route.path)}".rstrip("_")


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = _VARIABLE.findall(route.path)
    return [{"name": name, "in": "path", "required": True, "schema": KEY_SCHEMA} for name in names]


def _query_parameters(route: Route, named: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[named[repr(route.query)]["$ref"].rsplit("/", 1)[1]]
    parameters: list[dict[str, Any]] = []
    for name, kind in schema["properties"].items():
        kinds = [each for each in kind.get("anyOf", [kind]) if each.get("type") != "null"]
        shown = {key: value for key, value in kinds[0].items() if key != "default"}
        parameters.append({"name": name, "in": "query", "required": False, "schema": shown})
    return parameters


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.repeatable:
        return []
    kind = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": kind}]


def _answers(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in route.answers.items():
        schema = {"type": "string"} if kind is str else named[repr(kind)]
        content: dict[str, Any] = {route.content_type: {"schema": schema}}
        if status >= 400:
            content[PROBLEM] = {"schema": named[repr(ProblemDocument)]}
        found[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    return found


def _problems(route: Route, named: dict[str, Any]) -> dict[str, Any]:
    content = {PROBLEM: {"schema": named[repr(ProblemDocument)]}}
    return {str(s): {"description": HTTPStatus(s).phrase, "content": content} for s in problems_of(route)}


def problems_of(route: Route) -> list[int]:
    """The statuses of the problems that a route may answer with."""
    found = {421, 405, 431, *route.problems}
    if route.scope is not None:
        found |= {401, 403, 429, 503}
    if route.changes:
        found |= {403, 409, 507}
    if route.body is not None:
        found |= {400, 408, 413, 415, 422}
    if route.query is not None or "{" in route.path:
        found |= {400, 422}
    return sorted(found)
