"""What pages say after an action, by the name that its cookie carries; it begins `not-` if nothing was changed."""

TEXTS = {
    "flushed": "Flushed: it is delivered as soon as a worker is free.",
    "not-flushed": "Nothing was changed: the timeline is not waiting.",
    "paused": "Paused: records are accepted, and nothing is delivered until you resume it.",
    "not-paused": "Nothing was changed: it was paused already.",
    "resumed": "Resumed: deliveries go on.",
    "not-resumed": "Nothing was changed: it was not paused.",
    "retracted": "The record was retracted.",
    "not-retracted": "Nothing was changed: there is no such pending record. It may have gone out meanwhile.",
    "deleted": "The timeline was deleted, with its records, dead letters and history.",
    "not-deleted": "Nothing was changed: there was nothing to delete.",
    "policy-set": "The policy is in force, in every process, and what waits was planned again.",
    "policy-cleared": "Its own policy is removed; the one of its route is in force again.",
    "not-cleared": "Nothing was changed: it had no policy of its own.",
    "preferred": "The preference is stored, and what waits was planned again.",
    "replayed": "Replayed: the dead letter is the next digest of its timeline.",
    "requeued": "Requeued: its records go out with the next digest of their timeline.",
    "discarded": "Discarded: its records count as deleted.",
    "not-there": "Nothing was changed: that dead letter was replayed, requeued or discarded meanwhile.",
    "logged-out": "You are logged out.",
}


def has_changed(name: str) -> bool:
    """True if the action of a message has done something."""
    return not name.startswith("not-")
