"""What a timeline's route sends and has sent, over HTTP."""

import asyncio
from pathlib import Path

from tests.service.harness import serving


def test_a_preview_shows_what_would_be_sent_and_a_kept_message_what_was(tmp_path: Path) -> None:
    with serving() as (client, service):
        service.digests.route("mail:*", channel=f"file://{tmp_path}/out")
        service.digests.keep_messages()
        assert client.get("/v1/timelines/mail:ada/preview").status == 404
        client.add("mail:ada", "Build 7 failed")

        preview = client.get("/v1/timelines/mail:ada/preview").json()
        asyncio.run(service.digests.deliver("mail:ada"))
        [digest] = client.get("/v1/digests").json()["digests"]
        message = client.get(f"/v1/digests/{digest['id']}/message").json()

        assert "Build 7 failed" in preview["text"]
        assert (message["timeline"], message["subject"]) == ("mail:ada", preview["subject"])
        assert client.get("/v1/digests/unknown/message").status == 404
        assert client.get("/v1/timelines/other/preview").status == 404
