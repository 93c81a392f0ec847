"""The layout of the origin of 2017, written anew from its description: all in one script, a key for each record.

Records expire after an hour, a full timeline is trimmed by chance, the schedule moves everything that is due in one
call, and a digest is closed before it is sent. Tasks go through a list in Redis, where there was a task queue.
"""

import json
import pickle
import random
import sys
import zlib
from collections.abc import Sequence
from threading import Thread
from time import sleep, time
from typing import Any

import redis

from bench._peers.producing import Event, Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink

TTL = 3600
CAPACITY = 100_000
TASKS = "tasks"

ADD = """
local timeline, key, value, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local increment, maximum, ttl, capacity = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local set = 't:' .. timeline
redis.call('SETEX', 't:' .. timeline .. ':r:' .. key, ttl, value)
redis.call('ZADD', set, now, key)
redis.call('EXPIRE', set, ttl)
local ready = 0
if not redis.call('ZSCORE', 'ready', timeline) then
    local at = redis.call('ZSCORE', 'waiting', timeline)
    if not at then
        redis.call('ZADD', 'ready', now, timeline)
        ready = 1
    else
        local last = redis.call('GET', set .. ':last')
        if last then
            redis.call('ZADD', 'waiting', math.min(tonumber(at) + increment, tonumber(last) + maximum), timeline)
        end
    end
end
if ARGV[9] == '1' and redis.call('ZCARD', set) > capacity then
    for _, old in ipairs(redis.call('ZREVRANGE', set, capacity, -1)) do
        redis.call('DEL', set .. ':r:' .. old)
        redis.call('ZREM', set, old)
    end
end
return ready
"""
SCHEDULE = """
local due = redis.call('ZRANGEBYSCORE', 'waiting', 0, ARGV[1], 'WITHSCORES')
for i = 1, #due, 2 do
    redis.call('ZREM', 'waiting', due[i])
    redis.call('ZADD', 'ready', due[i + 1], due[i])
end
return due
"""
OPEN = """
local set = 't:' .. ARGV[1]
if not redis.call('ZSCORE', 'ready', ARGV[1]) then return false end
if redis.call('EXISTS', set) == 1 then
    redis.call('ZUNIONSTORE', set .. ':d', 2, set .. ':d', set, 'AGGREGATE', 'MAX')
    redis.call('DEL', set)
    redis.call('EXPIRE', set .. ':d', ARGV[2])
end
local found = {}
for i, key in ipairs(redis.call('ZREVRANGE', set .. ':d', 0, -1)) do
    found[2 * i - 1] = key
    found[2 * i] = redis.call('GET', set .. ':r:' .. key) or ''
end
return found
"""
CLOSE = """
local set = 't:' .. ARGV[1]
for _, key in ipairs(redis.call('ZRANGE', set .. ':d', 0, -1)) do redis.call('DEL', set .. ':r:' .. key) end
local empty = redis.call('DEL', set .. ':d') == 0
redis.call('ZREM', 'ready', ARGV[1])
if empty and redis.call('EXISTS', set) == 0 then
    redis.call('DEL', set .. ':last')
    return
end
redis.call('SETEX', set .. ':last', ARGV[4], ARGV[2])
redis.call('ZADD', 'waiting', tonumber(ARGV[2]) + tonumber(ARGV[3]), ARGV[1])
"""


class Timelines(Producer):
    """The scripts, and what goes into them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.client = redis.Redis.from_url(settings["url"])
        self.delay = settings["delay"]
        self._add, self._schedule, self._open, self._close = map(
            self.client.register_script, (ADD, SCHEDULE, OPEN, CLOSE)
        )

    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        if self._add(args=self._arguments(timeline, value)):
            self.client.rpush(TASKS, f"{time()} {timeline}")
        return True

    def add_many(self, events: Sequence[Event]) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            for timeline, value in events:
                self._add(args=self._arguments(timeline, value), client=pipe)
            answers = pipe.execute()
        ready = [timeline for (timeline, _), answer in zip(events, answers, strict=True) if answer]
        if ready:
            self.client.rpush(TASKS, *[f"{time()} {timeline}" for timeline in ready])

    def _arguments(self, timeline: str, value: dict[str, Any]) -> list[Any]:
        packed = zlib.compress(pickle.dumps(value))
        trims = int(random.random() < 1 / CAPACITY)
        return [timeline, value["id"], packed, time(), self.delay / 10, self.delay * 6, TTL, CAPACITY, trims]

    def schedule(self) -> list[str]:
        found = self._schedule(args=[time()])
        return [f"{float(at)} {key.decode()}" for key, at in zip(found[::2], found[1::2], strict=True)]

    def digest(self, timeline: str) -> list[dict[str, Any]]:
        """Open and close: the records, which are then sent."""
        found = self._open(args=[timeline, TTL]) or []
        self._close(args=[timeline, time(), self.delay, TTL])
        return [pickle.loads(zlib.decompress(value)) for value in found[1::2] if value]


def tick(timelines: Timelines, seconds: float) -> None:
    """Make tasks of what is due, for ever."""
    while True:
        if due := timelines.schedule():
            timelines.client.rpush(TASKS, *due)
        sleep(seconds)


def deliver(settings: dict[str, Any]) -> None:
    timelines, sink = Timelines(settings), Sink(settings["sink"])
    Thread(target=tick, args=[Timelines(settings), settings["poll"]], daemon=True).start()
    tell_ready()
    while True:
        task: Any = timelines.client.blpop([TASKS], timeout=0)
        at, _, timeline = task[1].decode().partition(" ")
        if records := timelines.digest(timeline):
            sink.note((record["id"] for record in records), due=float(at))


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    if sys.argv[1] == "producer":
        obey(Timelines(options), options["events"])
    else:
        deliver(options)
