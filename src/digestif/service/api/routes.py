"""Routes of the API, and how a request finds its own. Keys are one percent-encoded segment each."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

from digestif.service.api.problems import Problem
from digestif.service.api.requests import Request
from digestif.service.settings import Scope

Endpoint = Callable[[Request], Awaitable[Any]]
TIMELINE = "{timeline}"


class Route(Struct, frozen=True, kw_only=True):
    """One thing that the API does: all that its router, its guards, its description and its tests need to know."""

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    scope: Scope | None  # that a token needs; None: no token is needed
    answers: Mapping[int, object]  # types by status, the usual one first
    query: Any = None  # a struct of parameters
    body: Any = None  # its type
    needs_body: bool = True
    lines: bool = False  # the body may also be one document a line
    content_type: str = "application/json"  # of answers
    problems: Sequence[int] = ()  # beyond those that any route has
    whole: bool = False  # concerns the whole store: refused to tokens with a prefix
    repeatable: bool = False  # takes an Idempotency-Key

    @property
    def status(self) -> int:
        return next(iter(self.answers))

    @property
    def has_timeline(self) -> bool:
        return TIMELINE in self.path

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD")


class _Node(Struct):
    """A place in the tree of paths."""

    literals: dict[bytes, "_Node"] = field(default_factory=dict)
    variable: "_Node | None" = None
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    """Finds the route of a request by its method and the undecoded path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._place(route.path).routes[route.method] = route

    def _place(self, path: str) -> _Node:
        node = self._root
        for segment in path.encode().split(b"/")[1:]:
            if segment.startswith(b"{"):
                node.variable = node = node.variable or _Node()
            else:
                node = node.literals.setdefault(segment, _Node())
        return node

    def knows(self, raw_path: bytes) -> bool:
        return self._walk(raw_path) is not None

    def find(self, method: str, raw_path: bytes) -> tuple[Route, Sequence[str]]:
        """The route and the keys in the path. 404 if there is no such path, 405 if it is not for this method."""
        found = self._walk(raw_path)
        if found is None:
            raise Problem(404, "there is nothing at this path; /docs lists what there is")
        node, segments = found
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join([*sorted(node.routes), *(["HEAD"] if "GET" in node.routes else [])])
            raise Problem(405, f"this path takes {allowed}", headers={"allow": allowed})
        return route, [_text(segment) for segment in segments]

    def _walk(self, raw_path: bytes) -> tuple[_Node, list[bytes]] | None:
        node: _Node | None = self._root
        keys: list[bytes] = []
        for segment in raw_path.split(b"/")[1:]:
            assert node is not None
            following = node.literals.get(segment)
            if following is None:
                following = node.variable
                keys.append(segment)
            if following is None:
                return None
            node = following
        return (node, keys) if node is not None and node.routes else None


def _text(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise Problem(400, "the path is not UTF-8") from None
