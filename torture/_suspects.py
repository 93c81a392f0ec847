"""A worker that a digest may end: `python -m torture._suspects DSN FOLDER LEASE [MEGABYTES]`.

Its handler goes by the name of the timeline: `poison` ends the process, `slow…` takes three seconds. It notes each
delivery in a file of the folder.
"""

import os
import resource
import sys
import threading
import time
from pathlib import Path

from digestif import Digest, Digests, Policy
from tests.logbook import Logbook

POLICY = Policy(minimum_delay=3600, maximum_delay=3600)


def main(dsn: str, folder: str, lease: str, megabytes: str = "") -> None:
    if megabytes:
        threading.stack_size(512 << 10)  # otherwise the stacks of threads take a large part of it
        limit = int(megabytes) << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    logbook = Logbook(Path(folder) / "delivered")

    def deliver(digest: Digest) -> None:
        if digest.timeline == "poison":
            os._exit(1)
        if digest.timeline.startswith("slow"):
            time.sleep(3)
        logbook.note([digest.timeline, time.time(), digest.idempotency_key, len(digest), digest.dropped])

    with Digests(dsn, policy=POLICY, lease=float(lease)) as digests:
        digests.handler("*")(deliver)
        digests.run(poll=0.2, threads=50)


if __name__ == "__main__":
    main(*sys.argv[1:])
