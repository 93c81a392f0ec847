"""Which addresses channels may connect to: by default public ones only.

Otherwise users who may enter the address of a webhook could make a worker talk to machines that only it can reach. A
name is judged by the addresses it resolves to, and each connection again by its address: a name that resolves
differently the second time gains nothing.
"""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from digestif.sockets import AddressInfo, plain_socket

# IANA's registries of special addresses. Written out, because the tables of `ipaddress` differ between Pythons.
_NOT_PUBLIC_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # by which Azure talks to its machines
        "169.254.0.0/16",  # link-local, and the metadata of clouds
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
_UNICAST_6 = IPv6Network("2000::/3")  # without loopback, link-local and unique local
_NOT_PUBLIC_6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4, which leads to any IPv4 address
        "3fff::/20",
    )
]
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """The address is not public."""


def is_public(text: str) -> bool:
    """True for an IP address of the public internet."""
    return _is_public(ip_address(text))


def is_address(host: str) -> bool:
    """True for an IP address, False for a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def public_socket(address_info: AddressInfo) -> socket.socket:
    """A socket for a connection to this address. Raises AddressRefused if it is not public."""
    *_, address = address_info
    refuse_unless_public(str(address[0]))
    return plain_socket(address_info)


def refuse_unless_public(address: str) -> None:
    """Raise AddressRefused unless this is a public address, in the usual form: 127.1 may lead anywhere."""
    if not is_address(address) or not is_public(address):
        raise AddressRefused(f"{address} is not a public address")


@contextmanager
def public_only() -> Iterator[list[str]]:
    """Refuse connections of the block, in this thread, to addresses that are not public. Yields the refused ones.

    For libraries that open their own sockets. Python announces each connection to audit hooks, whichever library makes
    it; connections made without Python's sockets are not seen.
    """
    _listen_for_connections()
    refused: list[str] = []
    token = _refused.set(refused)
    try:
        yield refused
    finally:
        _refused.reset(token)


_refused: ContextVar[list[str] | None] = ContextVar("refused", default=None)  # None: all are allowed
_CONNECTIONS = frozenset({"socket.connect", "socket.sendmsg", "socket.sendto"})


@cache
def _listen_for_connections() -> None:
    sys.addaudithook(_judge_connection)  # once: Python can't remove it


def _judge_connection(
    event: str,
    arguments: tuple[Any, ...],
    # Bound here: at the end of the interpreter, globals are None while hooks are still called.
    connections: frozenset[str] = _CONNECTIONS,
    refused_here: ContextVar[list[str] | None] = _refused,
) -> None:
    if event not in connections or (refused := refused_here.get()) is None:
        return
    address = arguments[1]
    host = str(address[0]) if isinstance(address, tuple) else "a local socket"
    if not is_address(host) or not is_public(host):  # a name may resolve to anything: refused
        refused.append(host)
        raise AddressRefused(f"{host} is not a public address")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    plain = IPv6Address(int(address))  # without its zone: an address with a zone is in no network
    if plain in _NAT64:
        return _is_public(IPv4Address(int(plain) & 0xFFFFFFFF))
    return plain in _UNICAST_6 and not any(plain in network for network in _NOT_PUBLIC_6)
