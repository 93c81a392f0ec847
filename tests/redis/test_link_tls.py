"""A link through TLS: the server has to prove who it is."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif.clock import monotonic
from digestif.errors import ConfigError
from digestif.testing.servers import RedisServer, ServerFailed, free_port
from tests.redis.links import echo, linked
from tests.servers import needed_server


class Encrypted(NamedTuple):
    url: str
    ca: Path  # who vouches for it


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    needed_server("redis")
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    certify(folder, "127.0.0.1")
    port = free_port()
    server = RedisServer(kind="redis", tls_port=port, tls_auth_clients=False)
    server.options |= {f"tls-{what}-file": str(folder / f"{what}.pem") for what in ("cert", "key", "ca-cert")}
    try:
        server.start()
    except ServerFailed:
        pytest.skip("needs a server that was built with TLS")
    yield Encrypted(f"rediss://127.0.0.1:{port}", folder / "ca-cert.pem")
    server.close()


def certify(folder: Path, name: str) -> None:
    """A certificate for an address, signed by an authority that nobody else knows."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca-key.pem", "-out", "ca-cert.pem", "-subj", "/CN=authority")
    openssl("req", *curve, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=server")
    (folder / "names").write_text(f"subjectAltName=IP:{name}")
    signing = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", "names"]
    openssl("x509", "-req", "-in", "request.pem", *signing, "-out", "cert.pem")


def test_a_server_with_a_certificate_of_a_known_authority_is_trusted(encrypted: Encrypted) -> None:
    with linked(encrypted.url, ca=encrypted.ca) as link:
        assert link.run([echo("a"), echo("b")]) == [b"a", b"b"]


def test_a_server_of_an_unknown_authority_is_refused_at_once(encrypted: Encrypted) -> None:
    began = monotonic()
    with linked(encrypted.url) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)
    assert "ca=/path" in str(answer)
    assert monotonic() - began < 5


def test_a_server_by_another_name_is_refused(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), ca=encrypted.ca) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, ConfigError)


def test_trust_may_be_given_blindly(encrypted: Encrypted) -> None:
    with linked(encrypted.url.replace("127.0.0.1", "localhost"), verify="no") as link:
        assert link.run([echo("a")]) == [b"a"]
