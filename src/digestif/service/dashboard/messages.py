"""What pages say after an action, by the name that its cookie carries."""

TEXTS = {
    "flushed": "Flushed: it is delivered as soon as a worker is free.",
    "not-flushed": "Nothing to flush: the timeline is not waiting.",
    "paused": "Paused: records are accepted, and nothing is delivered until you resume it.",
    "not-paused": "It was paused already.",
    "resumed": "Resumed: deliveries go on.",
    "not-resumed": "It was not paused.",
    "retracted": "The record was retracted.",
    "not-retracted": "There is no such pending record: it may have gone out meanwhile.",
    "deleted": "The timeline was deleted, with its records, dead letters and history.",
    "not-deleted": "There was nothing to delete.",
    "policy-set": "The policy is in force, in every process, and what waits was planned again.",
    "policy-cleared": "Its own policy is removed; the one of its route is in force again.",
    "not-cleared": "It had no policy of its own.",
    "preferred": "The preference is stored, and what waits was planned again.",
    "replayed": "Replayed: the dead letter is the next digest of its timeline.",
    "requeued": "Requeued: its records go out with the next digest of their timeline.",
    "discarded": "Discarded: its records count as deleted.",
    "gone": "That dead letter is gone: it was replayed, requeued or discarded meanwhile.",
    "logged-out": "You are logged out.",
}
