"""An HTTP server of which a part is away, and what it accepts all the same."""

import base64
from random import Random

import msgspec
from aiohttp import web

from tests.channels.receiver import Receiver

SECRET = f"whsec_{base64.b64encode(bytes(32)).decode()}"


def away_in_part(server: Receiver, share: float, random: Random) -> list[tuple[str, str]]:
    """Let a server answer 503 to a share of its requests, each for itself.

    The list gets the timeline and the id of each message that it accepts.
    """
    arrived: list[tuple[str, str]] = []

    async def behaviour(receiver: Receiver, request: web.Request) -> web.Response:
        if random.random() < share:
            return web.Response(status=503, text="overloaded")
        body = msgspec.json.decode(await request.read())
        arrived.append((body["data"]["timeline"], request.headers["webhook-id"]))
        return web.Response(text="thank you")

    server.behave(behaviour)
    return arrived
