"""Which names the service answers to, and which pages of other sites may send it something: none."""

from urllib.parse import urlsplit

from digestif.service.addresses import is_loopback
from digestif.service.settings import Settings

REMEMBERED = 1_000  # spellings of our own names
LONGEST = 300  # bytes: longer than any name with its port


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
        self._secure = (public.hostname or "") if public is not None and public.scheme == "https" else None
        self._known: set[bytes] = set()

    def are_ours(self, host: bytes | None) -> bool:
        """True if a Host header names this service."""
        if host in self._known:
            return True
        if host is None or len(host) > LONGEST or not self._is_ours(host):
            return False
        if len(self._known) < REMEMBERED:
            self._known.add(host)
        return True

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
        """True for the Origin of a page that this service has not sent.

        A proxy that speaks TLS sends pages of https. Under a public address of https there are no others.
        """
        text, here = origin.decode("latin-1").lower(), host.decode("latin-1").lower()
        is_secure = self._secure is not None and urlsplit(f"//{here}").hostname == self._secure
        return text not in (self._public, f"https://{here}") and (is_secure or text != f"http://{here}")
