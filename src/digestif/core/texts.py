"""Values and errors as text for people: always short, always valid, never an error of its own."""

LONGEST_TEXT = 1000


def shortened(value: object, length: int = 80) -> str:
    """A value for a message."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a number of too many digits, an object whose repr fails
        text = f"<{type(value).__name__}>"
    return _cut(text, length)


def reason_of(error: BaseException) -> str:
    """An error as it is stored and shown."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # an error whose text fails
        text = type(error).__name__
    return _cut(text, LONGEST_TEXT)


def _cut(text: str, length: int) -> str:
    valid = text[: length + 1].encode("utf-8", "replace").decode()
    return valid if len(valid) <= length else valid[: length - 1] + "…"
