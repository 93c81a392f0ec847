"""What pages say after an action, by the name that its cookie carries; it begins `not-` if nothing was changed."""

import re

TEXTS = {
    "flushed": "Flushed: it is delivered as soon as a worker is free.",
    "flushed-paused": "Flushed: it is delivered when you resume it.",
    "flushed-empty": "Flushed: nothing was pending, so no message is sent; only its cool-down ends.",
    "not-flushed": "Nothing was changed: the timeline is not waiting.",
    "paused": "Paused: records are accepted, and nothing is delivered until you resume it.",
    "not-paused": "Nothing was changed: it was paused already.",
    "resumed": "Resumed: the timeline is delivered again when it is due.",
    "not-resumed": "Nothing was changed: it was not paused.",
    "retracted": "The record was retracted: it will not be delivered.",
    "not-retracted": "Nothing was changed: there is no such pending record. It may have been delivered already.",
    "tested": "A test record was added. This page shows when it is due; it may have been delivered already.",
    "not-tested": "Nothing was changed: the timeline is switched off, so it accepts no record.",
    "deleted": "The timeline was deleted, with its records, dead letters and history.",
    "not-deleted": "Nothing was changed: there was nothing to delete.",
    "policy-set": "The policy is in force in every process, for pending and new records.",
    "policy-cleared": "Removed: the policy of its route, or the default, applies again to pending and new records.",
    "not-cleared": "Nothing was changed: no policy or preference was stored for this timeline.",
    "preferred": "The preference is stored. It applies to pending and new records.",
    "switched-off": "Switched off. Records deleted: {count}. New records are declined until another cadence is chosen.",
    "replayed": "Replayed: the dead letter is the next digest of its timeline.",
    "requeued": "Requeued: its records go out with the next digest of their timeline.",
    "discarded": "Discarded: its records are deleted.",
    "letters-replayed": "Replayed: {count} dead letters. Each is the next digest of its timeline.",
    "letters-requeued": "Requeued: {count} dead letters. Their records go out with the next digests.",
    "letters-discarded": "Discarded: {count} dead letters. Their records are deleted.",
    "not-selected": "Nothing was changed: no dead letter was selected.",
    "not-there": "Nothing was changed: that dead letter was replayed, requeued or discarded in the meantime.",
    "logged-out": "You are logged out.",
}

_COUNTED = re.compile(r"([a-z-]+)\.([0-9]{1,15})")


def counted(name: str, count: int) -> str:
    """Return the name of a message that says how many records or dead letters were changed."""
    return f"{name}.{count}"


def text_of(name: str) -> str | None:
    """Return the text of a message; None if the name, which comes from a cookie, is unknown."""
    found = _COUNTED.fullmatch(name)
    if found is None:
        text = TEXTS.get(name)
        return None if text is None or "{count}" in text else text
    text = TEXTS.get(found[1])
    return None if text is None else text.replace("{count}", f"{int(found[2]):,}")


def has_changed(name: str) -> bool:
    """True if the action of a message has done something."""
    return not name.startswith("not-")
