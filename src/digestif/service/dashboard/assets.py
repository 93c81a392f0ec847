"""The files that pages load. Their address holds a hash of all of them, so that browsers keep them for good."""

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def files() -> dict[str, bytes]:
    """The files by name. Licences and the lock file of versions are no part of a page."""
    found = sorted(path for path in FOLDER.rglob("*") if path.suffix in KINDS)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in found}


@cache
def folder() -> str:
    """The address of the files."""
    together = hashlib.sha256()
    for name, content in files().items():
        together.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"/static/{together.hexdigest()[:16]}"


def route() -> Route:
    return Route("/static/{hash}/{name:path}", _file, methods=["GET"])


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    content = files().get(name)
    if content is None:
        return PlainTextResponse("there is no such file\n", status_code=404)
    is_current = request.scope["path"] == f"{folder()}/{name}"
    kept = "public, max-age=31536000, immutable" if is_current else "no-cache"
    headers = {
        "Cache-Control": kept,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return Response(content, media_type=KINDS[Path(name).suffix], headers=headers)
