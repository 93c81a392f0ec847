"""A visitor of the dashboard without a browser: keeps cookies, and sends forms as a browser does."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from tests.service.harness import Client, Reply, reply_of

FORM = "application/x-www-form-urlencoded"


class Visitor:
    """Follows no redirect by itself."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cookies: dict[str, str] = {}
        self.form_token = ""
        self.origin = client.url

    def get(self, path: str, **headers: str) -> Reply:
        return self._send("GET", path, None, headers)

    def page(self, path: str) -> str:
        """The text of a page that must be there."""
        reply = self.get(path)
        assert reply.status == 200, (path, reply.status, reply.body[:300])
        return unescape(reply.body.decode())

    def post(self, path: str, fields: Mapping[str, str] | Sequence[tuple[str, str]] = (), /, **headers: str) -> Reply:
        """Send a form with the token of the page that was seen last, unless the fields have one."""
        pairs = [*(fields.items() if isinstance(fields, Mapping) else fields)]
        if "form_token" not in dict(pairs):
            pairs.append(("form_token", self.form_token))
        body = urlencode(pairs).encode()
        own = {"content-type": FORM, "origin": self.origin, "sec-fetch-site": "same-origin"}
        return self._send(
            "POST", path, body, {**own, **{name.replace("_", "-"): text for name, text in headers.items()}}
        )

    def log_in(self, token: str) -> Reply:
        self.get("/login")
        return self.post("/login", {"token": token})

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        jar = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = self._client.connect()
        connection.request(method, path, body, {**({"Cookie": jar} if jar else {}), **headers})
        response = connection.getresponse()
        self._keep(response.headers.get_all("set-cookie") or [])
        reply = reply_of(response)
        connection.close()
        found = re.search(rb'name="form_token" value="([^"]+)"', reply.body)
        self.form_token = found[1].decode() if found else self.form_token
        return reply

    def _keep(self, given: list[str]) -> None:
        for text in given:
            for name, morsel in SimpleCookie(text).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
