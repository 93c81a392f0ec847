"""Signatures of webhooks, checked by the verifier that receivers use."""

from base64 import b64encode

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from digestif import ConfigError
from digestif.channels.webhook import Signer
from digestif.clock import wall_clock
from digestif.core.secret import Secret

OLD = "whsec_" + b64encode(b"o" * 24).decode()
NEW = "whsec_" + b64encode(b"n" * 64).decode()
OTHER = "whsec_" + b64encode(b"x" * 32).decode()
BODY = '{"data":"Grüße"}'.encode()


def test_a_receiver_with_the_secret_is_content() -> None:
    headers = Signer([OLD]).headers("d.1", at=wall_clock(), body=BODY)

    assert Webhook(OLD).verify(BODY, headers) == {"data": "Grüße"}


def test_while_a_secret_is_changed_both_receivers_are_content() -> None:
    headers = Signer([NEW, Secret(OLD)]).headers("d.1", at=wall_clock(), body=BODY)

    new, old = headers["webhook-signature"].split(" ")
    assert Webhook(NEW).verify(BODY, {**headers, "webhook-signature": new})
    assert Webhook(OLD).verify(BODY, {**headers, "webhook-signature": old})
    assert Webhook(OLD).verify(BODY, headers)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "d.2"},
        {"webhook-timestamp": str(int(wall_clock()) - 1)},
        {"webhook-timestamp": "1000000000"},
    ],
)
def test_what_was_changed_on_the_way_is_not_believed(change: dict[str, str]) -> None:
    headers = Signer([OLD]).headers("d.1", at=wall_clock(), body=BODY)

    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(BODY, headers | change)


def test_another_secret_or_another_body_is_not_believed() -> None:
    headers = Signer([OLD, NEW]).headers("d.1", at=wall_clock(), body=BODY)

    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(BODY + b" ", headers)


def test_a_secret_may_come_alone_and_without_its_prefix_and_padding() -> None:
    bare = OLD.removeprefix("whsec_").rstrip("=")

    assert Signer(bare).headers("d.1", at=1, body=BODY) == Signer([OLD]).headers("d.1", at=1, body=BODY)


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("whsec_hunter2!", "number 1 is not base64"),
        ("whsec_" + "Zw" * 3 + "é", "number 1 is not base64"),
        ("whsec_aHVudGVyMg==", "number 1 has 7 bytes"),
        ("whsec_" + b64encode(b"s" * 65).decode(), "number 1 has 65 bytes"),
        ("", "number 1 has 0 bytes"),
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Signer([secret])

    assert refused.value.__context__ is None  # which would show it
    assert not secret or secret not in str(refused.value)


def test_without_a_secret_nothing_is_signed() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        Signer([])
