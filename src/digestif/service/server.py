"""The HTTP server: uvicorn's settings, and how many connections there may be."""

import resource
from typing import Any

from starlette.types import ASGIApp

from digestif.service.connection import Connection, ConnectionConfig
from digestif.service.settings import Limits

KEEP_ALIVE = 75  # seconds; proxies often keep connections for 60
CONNECTIONS = 2_000
OTHER_FILES = 256  # that the process may have open: of the store, of channels
GRACE = 10  # seconds for requests that are under way when the service stops


def uvicorn_config(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0, **more: Any) -> ConnectionConfig:
    """How uvicorn is to run the application."""
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "http": Connection,
        "ws": "none",
        "lifespan": "off",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": most_connections(),
        "bodies": Limits().bodies,
        "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": GRACE,
        **more,
    }
    return ConnectionConfig(app, **options)


def most_connections() -> int:
    """How many connections leave files for the rest: without any, neither store nor channels could be reached."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if files < wanted <= most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        files = wanted
    return min(CONNECTIONS, max(files - OTHER_FILES, files // 2))
