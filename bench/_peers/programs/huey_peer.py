"""The usual buffer of one's own: a list in Redis for each timeline, and a task of Huey that empties it."""

import json
import sys
from collections.abc import Sequence
from time import time
from typing import Any

import redis
from huey import RedisHuey

from bench._peers.producing import Event, Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink

SETTINGS: dict[str, Any] = json.loads(sys.argv[2])
THREADS = 8

client = redis.Redis.from_url(SETTINGS["url"])
huey = RedisHuey("mail", url=SETTINGS["url"], results=False)
sink = Sink(SETTINGS["sink"])


@huey.task()  # type: ignore[untyped-decorator]
def mail(timeline: str, due: float) -> None:
    """Empty the list, then send: what is taken and not sent is lost with the process."""
    with client.pipeline() as pipe:  # a transaction
        pipe.lrange(f"list:{timeline}", 0, -1)
        pipe.delete(f"list:{timeline}", f"flag:{timeline}")
        values = [json.loads(value) for value in pipe.execute()[0]]
    if values:
        sink.note((value["id"] for value in values), due=due)


class Caller(Producer):
    """Schedules a task if the flag of a timeline was not set."""

    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        self.add_many([(timeline, value)])
        return True

    def add_many(self, events: Sequence[Event]) -> None:
        with client.pipeline() as pipe:
            for timeline, value in events:
                pipe.rpush(f"list:{timeline}", json.dumps(value))
                pipe.set(f"flag:{timeline}", 1, nx=True)
            answers = pipe.execute()[1::2]
        for (timeline, _), is_first in zip(events, answers, strict=True):
            if is_first:
                mail.schedule((timeline, time() + SETTINGS["delay"]), delay=SETTINGS["delay"])


if __name__ == "__main__":
    if sys.argv[1] == "producer":
        obey(Caller(), SETTINGS["events"])
    else:
        tell_ready()
        huey.create_consumer(workers=THREADS, periodic=False, scheduler_interval=1, max_delay=SETTINGS["poll"]).run()
