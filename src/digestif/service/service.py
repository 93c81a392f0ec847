"""`Service`: what requests need, the engine and the settings of the moment."""

from digestif.aio import AsyncDigests
from digestif.service.security.hosts import Hosts
from digestif.service.security.rates import Rates
from digestif.service.security.tokens import Tokens
from digestif.service.settings import Settings


class Service:
    """The engine and the settings that requests are answered with. A reload replaces them between two requests."""

    def __init__(self, settings: Settings, digests: AsyncDigests) -> None:
        self.replace(settings, digests)

    def replace(self, settings: Settings, digests: AsyncDigests) -> None:
        """Answer with these from now on."""
        self.settings = settings
        self.digests = digests
        self.tokens = Tokens(settings.tokens)
        self.hosts = Hosts(settings)
        self.rates = Rates(settings.limits.rate)
