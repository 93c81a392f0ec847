"""The side of a program that accepts events: it obeys lines of JSON, and answers each. Standard library only.

`one`: one caller, one event after the other. `callers`: so many at once. `batches`: of so many events. `paced`: so many
a second, and each acknowledged event is noted in a file that survives a kill. `node/producing.mjs` is its twin.
"""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count
from threading import Thread
from time import monotonic, sleep
from typing import Any

from bench._peers.workload import Workload

Event = tuple[str, dict[str, Any]]


class Producer(ABC):
    """A system from the caller's side."""

    @abstractmethod
    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        """Return once the event is accepted; False if it was refused."""

    def add_many(self, events: Sequence[Event]) -> None:
        """Return once all are accepted; only where a system has a call for that."""
        raise NotImplementedError


def obey(producer: Producer, events: str) -> None:
    """Obey commands until there are no more."""
    workload = Workload.read(events)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        run = {"one": _one, "callers": _callers, "batches": _batches, "paced": _paced}[command["do"]]
        began = monotonic()
        tried, refused = run(producer, workload, command)
        answer = {"tried": tried, "refused": refused, "seconds": monotonic() - began}
        print(json.dumps(answer), flush=True)


def _one(producer: Producer, workload: Workload, command: dict[str, Any]) -> tuple[int, list[int]]:
    return _callers(producer, workload, {**command, "callers": 1})


def _callers(producer: Producer, workload: Workload, command: dict[str, Any]) -> tuple[int, list[int]]:
    """Let threads take the next number each, until there are no more or the time is over."""
    numbers, last, end = count(command["first"]), command["last"], monotonic() + command["seconds"]
    tried: list[int] = []
    refused: list[int] = []
    failures: list[BaseException] = []

    def call() -> None:
        try:
            while monotonic() < end and (number := next(numbers)) < last:
                if not producer.add(*workload.event(number)):
                    refused.append(number)
                tried.append(number)
        except Exception as error:
            failures.append(error)
            raise

    threads = [Thread(target=call) for _ in range(command["callers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return len(tried), refused


def _batches(producer: Producer, workload: Workload, command: dict[str, Any]) -> tuple[int, list[int]]:
    number, end = command["first"], monotonic() + command["seconds"]
    while number < command["last"] and monotonic() < end:
        upto = min(number + command["size"], command["last"])
        producer.add_many([workload.event(each) for each in range(number, upto)])
        number = upto
    return number - command["first"], []


def _paced(producer: Producer, workload: Workload, command: dict[str, Any]) -> tuple[int, list[int]]:
    """Keep to the pace where the system can follow. Ends with the process: it is killed in the middle."""
    acks = os.open(command["acks"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    began, refused = monotonic(), list[int]()
    for number in range(command["first"], command["last"]):
        sleep(max(0.0, began + (number - command["first"]) / command["rate"] - monotonic()))
        if producer.add(*workload.event(number)):
            os.write(acks, f"{number}\n".encode())
        else:
            refused.append(number)
    return command["last"] - command["first"], refused
