"""The page at /docs: the description of the API for people, without a script and without anything from elsewhere."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from digestif.service.api.openapi import describe
from digestif.service.api.routes import Route

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.9em/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8886; border-radius: 4px; }
section { border-top: 1px solid #8886; padding: 0.5rem 0 1rem; }
h2 { font-size: 1.05rem; overflow-wrap: anywhere; }
.method { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 0.15rem 1rem 0.15rem 0; vertical-align: top; }
"""


def policy() -> str:
    """The Content-Security-Policy of the page: its own style and nothing else."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def page(routes: Sequence[Route]) -> str:
    document = describe(routes)
    sections = "\n".join(_section(route, document) for route in routes)
    schemas = "\n".join(_schema(name, kind) for name, kind in sorted(document["components"]["schemas"].items()))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Digestif: HTTP API</title><style>{STYLE}</style></head>
<body><main><h1>Digestif: HTTP API</h1><p>{escape(document["info"]["description"])}
The same as a document: <a href="/v1/openapi.json">/v1/openapi.json</a>.</p>
{sections}
<h1>Types</h1>
{schemas}
</main></body></html>
"""


def _section(route: Route, document: dict[str, Any]) -> str:
    operation = document["paths"][route.path][route.method.lower()]
    scope = "no token" if route.scope is None else f"scope {route.scope}"
    rows = [_row(each["name"], f"{each['in']}, {_shown(each['schema'])}") for each in operation["parameters"]]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(_row("body", f"{kind}: {_shown(content['schema'])}"))
    for status, answer in operation["responses"].items():
        kinds = [f"{kind}: {_shown(content['schema'])}" for kind, content in answer["content"].items()]
        rows.append(_row(status, f"{answer['description']}; {'; '.join(kinds)}"))
    return (
        f'<section id="{operation["operationId"]}"><h2><span class="method">{route.method}</span> '
        f"<code>{escape(route.path)}</code></h2><p>{escape(route.summary)} ({scope}).</p>"
        f"<table>{''.join(rows)}</table></section>"
    )


def _row(name: str, text: str) -> str:
    return f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"


def _shown(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if schema.get("type") == "array":
        return f"list of {_shown(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _schema(name: str, kind: dict[str, Any]) -> str:
    text = json.dumps(kind, indent=2, ensure_ascii=False)
    return f'<section id="type-{escape(name)}"><h2>{escape(name)}</h2><pre>{escape(text)}</pre></section>'
