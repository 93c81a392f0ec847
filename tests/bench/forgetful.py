"""A system that acknowledges every event and delivers none: what it loses must show in its figures."""

import json
import sys
from threading import Event
from typing import Any

from bench._peers.producing import Producer, obey
from bench._peers.readiness import tell_ready


class Forgetful(Producer):
    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        return True


if __name__ == "__main__":
    if sys.argv[1] == "producer":
        obey(Forgetful(), json.loads(sys.argv[2])["events"])
    else:
        tell_ready()
        Event().wait()
