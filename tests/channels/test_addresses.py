"""Which addresses channels may connect to."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from aiohttp.abc import ResolveResult

from digestif import ConfigError
from digestif.channels.addresses import AddressRefused, is_public, public_socket
from digestif.channels.http import Answer, Poster, PublicResolver
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.testing.channels import UNAVAILABLE, Expected
from tests.channels.receiver import Receiver, running

PUBLIC = [
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_connected_to(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_of_a_private_or_special_network_is_refused(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused, match="not a public address"):
        public_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 80)))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]", "0.0.0.0"])
def test_a_private_address_is_refused_before_anything_is_sent(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a public address; allow_private"):
        Poster(f"https://{host}/hook", timeout=1, allow_private=False)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "0177.0.0.1"])
def test_an_address_in_disguise_is_not_connected_to(receiver: Receiver, host: str) -> None:
    receiver.requests.clear()

    with pytest.raises(Unavailable):
        post(f"http://{host}:{receiver.port}/")

    assert not receiver.requests


@pytest.mark.parametrize("host", ["localhost", "0x7f.1"])
def test_a_name_is_judged_by_its_address(receiver: Receiver, host: str) -> None:
    receiver.requests.clear()

    with pytest.raises(DeliveryFailed, match="is not a public address; allow_private") as failed:
        post(f"http://{host}:{receiver.port}/")

    assert Expected.of(failed.value) == UNAVAILABLE
    assert not receiver.requests


def test_a_name_with_one_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*args: object, **kwargs: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in ("1.1.1.1", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    with pytest.raises(Unavailable, match=r"was not connected to: 10\.0\.0\.1 is not a public address"):
        post("https://mixed.example/")


def test_a_name_that_changes_its_address_after_the_check_gains_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rebound(self: object, host: str, port: int = 0, family: object = None) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=6, flags=0)]

    monkeypatch.setattr(PublicResolver, "resolve", rebound)
    receiver.requests.clear()

    with pytest.raises(Unavailable, match=r"127\.0\.0\.1 is not a public address"):
        post(f"http://rebound.example:{receiver.port}/")

    assert not receiver.requests


def test_private_addresses_are_connected_to_when_that_is_allowed(receiver: Receiver) -> None:
    assert post(f"http://localhost:{receiver.port}/", allow_private=True).status == 200


def test_a_proxy_in_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, receiver.url)
    receiver.requests.clear()

    with pytest.raises(Unavailable, match="can't be resolved"):
        post("http://nobody.invalid/")

    assert not receiver.requests


def post(url: str, *, allow_private: bool = False) -> Answer:
    async def post() -> Answer:
        poster = Poster(url, timeout=5, allow_private=allow_private)
        try:
            return await poster.post(b"{}", {})
        finally:
            await poster.close()

    return asyncio.run(post())


def test_the_end_of_the_interpreter_is_not_disturbed() -> None:
    """Python sets the globals of modules to None when it ends, and goes on announcing events."""
    code = """
import sys
from digestif.channels import addresses

with addresses.public_only():
    pass
vars(addresses).update(dict.fromkeys(vars(addresses)))
sys.audit("any.event")
sys.audit("socket.connect", None, ("127.0.0.1", 1))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
