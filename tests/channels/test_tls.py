"""TLS with a certificate authority of the user's own: channels over HTTP trust the file in `ca`, and no other."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from digestif import ConfigError
from digestif.channels.base import Receipt
from digestif.channels.registry import open_channel
from digestif.core.verdicts import DeliveryFailed
from digestif.testing.channels import UNAVAILABLE, Expected
from tests.channels.deliveries import delivered
from tests.channels.receiver import Receiver, running

SECRET = "whsec_" + "c2VjcmV0" * 4
SCHEMES = ["webhook+https", "slack"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def receiver(authority: trustme.CA) -> Iterator[Receiver]:
    with running(certificate=certificate_of(authority, "127.0.0.1")) as receiver:
        yield receiver


def certificate_of(authority: trustme.CA, host: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


def trusted(authority: trustme.CA, folder: Path) -> Path:
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return folder / "ca.pem"


def dsn_of(scheme: str, receiver: Receiver, ca: Path) -> str:
    secret = f"&secret={SECRET}" if scheme.startswith("webhook") else ""
    return f"{scheme}://127.0.0.1:{receiver.port}/hook?allow_private=true&ca={ca}{secret}"


def deliver(dsn: str) -> Receipt:
    return delivered(open_channel(dsn))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_receiver_with_a_certificate_of_our_own_authority_is_trusted(
    scheme: str, receiver: Receiver, authority: trustme.CA, tmp_path: Path
) -> None:
    receiver.requests.clear()

    receipt = deliver(dsn_of(scheme, receiver, trusted(authority, tmp_path)))

    assert receipt.detail == "200 thank you"
    assert [request.path for request in receiver.requests] == ["/hook"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_receiver_with_a_certificate_of_another_authority_gets_nothing(
    scheme: str, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.requests.clear()

    with pytest.raises(DeliveryFailed, match=r"127.0.0.1 has a certificate that is not trusted") as failed:
        deliver(dsn_of(scheme, receiver, trusted(trustme.CA(), tmp_path)))

    assert Expected.of(failed.value) == UNAVAILABLE
    assert str(failed.value).startswith("configuration: ")
    assert not receiver.requests


def test_a_certificate_for_another_name_is_not_trusted(authority: trustme.CA, tmp_path: Path) -> None:
    with (
        running(certificate=certificate_of(authority, "elsewhere.example")) as receiver,
        pytest.raises(DeliveryFailed, match=r"127.0.0.1 has a certificate that is not trusted"),
    ):
        deliver(dsn_of("webhook+https", receiver, trusted(authority, tmp_path)))

    assert not receiver.requests


@pytest.mark.parametrize(
    "dsn",
    [
        f"webhook+https://receiver.example/?secret={SECRET}&ca=",
        "slack://hooks.slack.com/services/T/B/X?ca=",
        "smtps://mail.example?from=a@b.c&ca=",
    ],
)
def test_a_file_without_certificates_is_refused(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")

    with pytest.raises(ConfigError, match=r"ca: .*/ca.pem' is not a file of certificates in PEM"):
        open_channel(f"{dsn}{tmp_path / 'ca.pem'}")
    with pytest.raises(ConfigError, match=r"ca: there is no file '.*/absent.pem'"):
        open_channel(f"{dsn}{tmp_path / 'absent.pem'}")


def test_an_authority_without_tls_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    file = trusted(authority, tmp_path)

    with pytest.raises(ConfigError, match="ca: only for TLS"):
        open_channel(f"webhook+http://receiver.example/?secret={SECRET}&allow_private=true&ca={file}")
