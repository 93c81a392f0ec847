"""A worker that sends webhooks, as a process: `python -m tests.routes.sender STORE CHANNEL`."""

import sys

from digestif import Digests, Policy, Retry, Worker

# As webhook routes are by default, with short waits; nothing is buried however often it is killed.
POLICY = Policy(
    minimum_delay=0.05,
    increment_delay=0.01,
    maximum_delay=0.3,
    redelivery="same",
    attempts=10_000,
    lapses=10_000,
    retry=Retry(initial=0.05, maximum=0.2),
)


def main(store: str, channel: str) -> None:
    with Digests(store, lease=0.5, policy=POLICY) as digests:
        digests.route("hook:*", channel=channel)
        Worker(digests, poll=0.1).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
