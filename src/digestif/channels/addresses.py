"""Which addresses may be connected to: public ones only, unless somebody said otherwise.

Whoever may enter the address of a webhook could otherwise make us talk to machines that only we can reach. Names are
judged by what they resolve to, and every socket once more by the address that it is about to connect to: a name that
answers differently the second time gains nothing.
"""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

# The registries of special addresses at IANA. Written out, because the tables of `ipaddress` differ between Pythons.
_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # where one cloud talks to its machines
        "169.254.0.0/16",  # link-local; also where clouds keep their metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
]
_UNICAST_6 = IPv6Network("2000::/3")  # all that is handed out; loopback, link-local, unique local lie outside
_NOT_PUBLIC_6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",
    )
]
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """The address is not public."""


def is_public(text: str) -> bool:
    """True for an IP address that everybody reaches alike."""
    return _is_public(ip_address(text))


def is_address(host: str) -> bool:
    """True for an IP address, False for a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def public_socket(address_info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """A socket for an address that is about to be connected to. Raises AddressRefused if it is not public."""
    family, kind, protocol, _, address = address_info
    refuse_unless_public(str(address[0]))
    return socket.socket(family=family, type=kind, proto=protocol)


def refuse_unless_public(address: str) -> None:
    if not is_public(address):
        raise AddressRefused(f"{address} is not a public address")


@contextmanager
def public_only() -> Iterator[list[str]]:
    """Let whatever runs in the block, in this thread, connect to public addresses only. Gives those that were refused.

    For libraries that make their own connections and can't be given sockets. Python tells of each that it is about to
    make, through whichever library; connections that are made without Python are not seen.
    """
    _listen_for_connections()
    refused: list[str] = []
    token = _refused.set(refused)
    try:
        yield refused
    finally:
        _refused.reset(token)


_refused: ContextVar[list[str] | None] = ContextVar("refused", default=None)  # None: anything may be connected to
_CONNECTIONS = frozenset({"socket.connect", "socket.sendmsg", "socket.sendto"})


@cache
def _listen_for_connections() -> None:
    sys.addaudithook(_judge_connection)  # for good: Python has no way to take one back


def _judge_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _CONNECTIONS or (refused := _refused.get()) is None:
        return
    address = arguments[1]
    host = str(address[0]) if isinstance(address, tuple) else "a local socket"
    if not is_address(host) or not is_public(host):  # a name is not judged, since nobody knows where it will lead
        refused.append(host)
        raise AddressRefused(f"{host} is not a public address")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    plain = IPv6Address(int(address))  # without a zone, with which it would be in no network
    if plain in _NAT64:
        return _is_public(IPv4Address(int(plain) & 0xFFFFFFFF))
    return plain in _UNICAST_6 and not any(plain in network for network in _NOT_PUBLIC_6)
