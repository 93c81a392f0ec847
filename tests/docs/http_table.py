"""The tables of docs/reference/http.md: `./dev python -m tests.docs.http_table` writes them anew."""

from digestif.service.api.endpoints import ROUTES
from digestif.service.api.openapi import problems_of
from digestif.service.api.routes import Route
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "http.md"
BEGIN, END = "<!-- routes -->", "<!-- end of routes -->"


def table() -> str:
    """A row for each route."""
    rows = ["| request | does | scope | answers | problems |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, ROUTES)])


def _row(route: Route) -> str:
    common = {400, 401, 403, 405, 408, 413, 415, 421, 422, 429, 431, 503}
    own = ", ".join(str(status) for status in problems_of(route) if status not in common)
    scope = "none" if route.scope is None else str(route.scope) + (", no prefix" if route.whole else "")
    answers = ", ".join(map(str, route.answers))
    return f"| `{route.method} {route.path}{_query(route)}` | {route.summary} | {scope} | {answers} | {own} |"


def _query(route: Route) -> str:
    return "" if route.query is None else "?" + "&".join(f"{name}=" for name in route.query.__struct_fields__)


def written(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
