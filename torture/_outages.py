"""A worker with two channels: `python -m torture._outages STORE MAIL FOLDER`.

Timelines `mail:…` are sent to the mail server MAIL, those named `fast:…` are noted in a file of the folder.
"""

import sys
import time
from pathlib import Path

from digestif import Digest, Digests
from tests.logbook import Logbook


def main(store: str, mail: str, folder: str) -> None:
    logbook = Logbook(Path(folder) / "delivered")

    def note(digest: Digest) -> None:
        logbook.note([digest.timeline, time.time()])

    with Digests(store) as digests:
        digests.route("mail:*", channel=mail, group_by=["title"])
        digests.handler("fast:*")(note)
        digests.run(poll=0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
