"""Handlers and routes that are registered in the wrong way say which is the right one."""

from typing import Any

import pytest

from digestif import AsyncDigests, ConfigError, Digest, Digests


@pytest.fixture(params=[Digests, AsyncDigests])
def digests(request: pytest.FixtureRequest) -> Any:
    return request.param("memory://")


def test_a_handler_without_a_pattern_shows_the_right_form(digests: Any) -> None:
    def send(digest: Digest) -> None: ...

    async def send_later(digest: Digest) -> None: ...

    for function in (send, send_later):
        with pytest.raises(ConfigError) as refused:
            digests.handler(function)

        assert str(refused.value) == (
            f'handler: say which timelines {function.__name__} delivers: @digests.handler("mail:*")'
        )


def test_a_route_without_a_channel_names_what_is_missing(digests: Any) -> None:
    with pytest.raises(TypeError, match=r"missing .* argument: 'channel'"):
        digests.route("mail:*")
