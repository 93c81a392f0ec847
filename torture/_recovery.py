"""A worker with slow coroutines: `python -m torture._recovery DSN NAMESPACE LEASE CONCURRENCY SECONDS`.

Its handler takes so many seconds. One whose timeline begins with `poison` kills its process half way.
"""

import asyncio
import os
import signal
import sys

from digestif import Digest, Digests, Policy

POLICY = Policy(minimum_delay=3600, maximum_delay=3600)


def main(dsn: str, namespace: str, lease: str, concurrency: str, seconds: str) -> None:
    async def deliver(digest: Digest) -> None:
        await asyncio.sleep(float(seconds) / 2)
        if digest.timeline.startswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(float(seconds) / 2)

    with Digests(dsn, namespace=namespace, policy=POLICY, lease=float(lease)) as digests:
        digests.handler("*")(deliver)
        digests.run(poll=0.2, concurrency=int(concurrency))


if __name__ == "__main__":
    main(*sys.argv[1:])
