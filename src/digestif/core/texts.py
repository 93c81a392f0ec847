"""Values, errors and hints as text for people: short, valid UTF-8, and without raising."""

import difflib
import traceback

LONGEST_TEXT = 1000
LONGEST_TRACEBACK = 4000


def shortened(value: object, length: int = 80) -> str:
    """A value for a message."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a number of too many digits, an object whose repr fails
        text = f"<{type(value).__name__}>"
    return shortened_text(text, length)


def reason_of(error: BaseException) -> str:
    """The text of an error, as it is stored and shown."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # an error whose text fails
        text = type(error).__name__
    return shortened_text(text, LONGEST_TEXT)


def message_of(error: BaseException) -> str:
    """The text of an error without its type."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # an error whose text fails
        text = type(error).__name__
    return shortened_text(text, LONGEST_TEXT)


def traceback_of(error: BaseException | None) -> str:
    """The traceback of an error, as it is stored. Of a long one only the end, which says where."""
    if error is None:
        return ""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001  # an error whose text fails
        return ""
    valid = text.encode("utf-8", "replace").decode()
    return valid if len(valid) <= LONGEST_TRACEBACK else "…" + valid[-LONGEST_TRACEBACK + 1 :]


def in_one_line(text: str) -> str:
    """A text for one line of a log: line breaks and control characters become blanks."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def did_you_mean(name: str, known: list[str], *, or_all: bool = True, cutoff: float = 0.5) -> str:
    """The end of an error message: the most similar known name, or all names."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if or_all else ""


def shortened_text(text: str, length: int) -> str:
    """A text of at most `length` characters; invalid ones are replaced."""
    valid = text[: length + 1].encode("utf-8", "replace").decode()
    return valid if len(valid) <= length else valid[: length - 1] + "…"
