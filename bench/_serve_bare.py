"""A bare Starlette handler under uvicorn, both as they come: it reads the body and answers 202 at once."""

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def accept(request: Request) -> Response:
    await request.body()
    return Response(b"{}", status_code=202, media_type="application/json")


PATHS = ("/v1/timelines/{timeline}/records", "/v1/records")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"Listening at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        app = Starlette(routes=[Route(path, accept, methods=["POST"]) for path in PATHS])
        uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
