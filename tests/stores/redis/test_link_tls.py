"""A link through TLS: the server has to prove who it is."""

from digestif.clock import monotonic
from digestif.errors import ConfigError
from tests.stores.redis.links import echo, linked
from tests.stores.redis.tls import Encrypted


def test_a_server_with_a_certificate_of_a_known_authority_is_trusted(encrypted: Encrypted) -> None:
    with linked(encrypted.url, ca=encrypted.ca) as link:
        assert link.run([echo("a"), echo("b")]) == [b"a", b"b"]


def test_a_server_of_an_unknown_authority_is_refused_at_once(encrypted: Encrypted) -> None:
    began = monotonic()
    with linked(encrypted.url, patience=60) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)
    assert "ca=/path" in str(answer)
    assert monotonic() - began < 30  # it is not tried again


def test_a_server_by_another_name_is_refused(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), ca=encrypted.ca) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)


def test_trust_may_be_given_blindly(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), verify="no") as link:
        assert link.run([echo("a")]) == [b"a"]
