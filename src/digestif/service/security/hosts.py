"""Which names the service answers to, and which pages of other sites may send it something: none."""

from urllib.parse import urlsplit

from digestif.service.addresses import is_loopback
from digestif.service.settings import Settings

REMEMBERED = 1_000


class Hosts:
    """The names under which a service is reached: loopback ones, its public address, and those of the settings.

    A page of another site can make a browser send requests here under a name of its own (DNS rebinding): such a
    request names a host that is none of these.
    """

    def __init__(self, settings: Settings) -> None:
        public = None if settings.public is None else urlsplit(settings.public)
        self._public = None if public is None else f"{public.scheme}://{public.netloc}".lower()
        own = [] if public is None else [public.netloc, public.hostname or ""]
        self._names = {name.lower() for name in (*settings.hosts, *own) if name}
        self._known: dict[bytes, bool] = {}

    def are_ours(self, host: bytes | None) -> bool:
        """True if a Host header names this service."""
        if host is None:
            return False
        known = self._known.get(host)
        if known is None:
            known = self._is_ours(host)
            if len(self._known) < REMEMBERED:
                self._known[host] = known
        return known

    def _is_ours(self, host: bytes) -> bool:
        text = host.decode("latin-1").lower()
        try:
            name = urlsplit(f"//{text}").hostname or ""
            port = urlsplit(f"//{text}").port
        except ValueError:
            return False
        bracketed = f"[{name}]" if ":" in name else name
        if text != bracketed and text != f"{bracketed}:{port}":
            return False  # more than a name and a port
        return text in self._names or bracketed in self._names or is_loopback(name)

    def is_foreign(self, origin: bytes, host: bytes) -> bool:
        """True for the Origin of a page that this service has not sent."""
        text = origin.decode("latin-1").lower()
        return text not in (self._public, f"http://{host.decode('latin-1').lower()}", _secure(host))


def _secure(host: bytes) -> str:
    """The origin behind a proxy that speaks TLS."""
    return f"https://{host.decode('latin-1').lower()}"
