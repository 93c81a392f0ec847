"""Addresses of servers in DSNs: IPv6, and several hosts of which one is the primary."""

import pytest

from digestif import Digests, StoreUnavailable
from digestif.clock import monotonic
from digestif.dsn import Dsn
from digestif.stores.postgres import _address, from_dsn
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import free_port
from digestif.transfer import Move


@pytest.mark.parametrize(
    ("location", "host", "port", "shown"),
    [
        ("h", "h", None, "h"),
        ("h:5433", "h", "5433", "h:5433"),
        ("[::1]", "::1", None, "[::1]"),
        ("[::1]:5433", "::1", "5433", "[::1]:5433"),
        ("h1:5432,h2:5433", "h1,h2", "5432,5433", "h1:5432,h2:5433"),
        ("h1,h2", "h1,h2", None, "h1,h2"),
        ("h1,h2:5433", "h1,h2", ",5433", "h1,h2:5433"),
        ("h1:5433,h2", "h1,h2", "5433,", "h1:5433,h2"),
        ("[::1]:5432,[fe80::2],h3:5433", "::1,fe80::2,h3", "5432,,5433", "[::1]:5432,[fe80::2],h3:5433"),
    ],
)
def test_hosts_and_ports_are_read_and_shown(location: str, host: str, port: str | None, shown: str) -> None:
    dsn = Dsn.parse(f"postgresql://ada:secret@{location}/app?target_session_attrs=read-write&pool=3")

    found = _address(dsn.location)
    store = from_dsn(dsn, namespace="d")

    assert (found["host"], found.get("port"), found["dbname"]) == (host, port, "app")
    assert store._database.name == f"postgresql://{shown}/app"
    store.close()


@pytest.mark.long
def test_a_server_is_reached_by_its_ipv6_address_and_as_one_of_several() -> None:
    with (
        PostgresServer(fsync=False, listen_addresses="127.0.0.1,::1") as server,
        PostgresServer(fsync=False, default_transaction_read_only=True) as standby,
    ):
        login, database, primary = "postgresql://digestif", "digestif", f"[::1]:{server.port}"
        nobody = f"127.0.0.1:{free_port()}"
        several = f"{nobody},127.0.0.1:{standby.port},{primary}/{database}?target_session_attrs=read-write"
        for place in (f"{primary}/{database}", f"{several}&pool=2&connect_timeout=5"):
            with Digests(f"{login}@{place}") as digests:
                digests.add("t", 1)
                assert digests.verify()
        with Digests(f"{login}@{several}") as old, Digests(f"{login}@{primary}/{database}?schema=other") as new:
            Move(old.store, new.store).run()  # type: ignore[arg-type]
            assert (old.ledger().pending, new.ledger().pending) == (0, 2)


@pytest.mark.long
def test_hosts_of_which_none_is_the_primary_are_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """A standby that is up is no reason to give up: it may be promoted, or the primary come back."""
    with PostgresServer(fsync=False, default_transaction_read_only=True) as standby:
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{standby.port}"
        began = monotonic()
        with (
            pytest.raises(StoreUnavailable) as refused,
            Digests(
                f"postgresql://digestif:secret@{hosts}/digestif?target_session_attrs=read-write&timeout=1"
            ) as digests,
        ):
            digests.ledger()

    assert monotonic() - began >= 1
    assert str(refused.value).startswith(f"postgresql://{hosts}/digestif: ")
    assert "read-only" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "password" not in str(refused.value)
    assert caplog.record_tuples == []
