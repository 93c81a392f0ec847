"""Secrets: texts that no message, log or traceback shows."""

from typing import Any


class Secret:
    """A password, a token or a key. Only `reveal()` gives its text."""

    __slots__ = ("_text",)

    def __init__(self, text: "str | Secret") -> None:
        self._text: str = text.reveal() if isinstance(text, Secret) else text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> Any:
        raise TypeError("a Secret is not pickled: it would lie open in the result")
