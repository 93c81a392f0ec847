"""Types of fields that several requests have, with what the description of the API says about them.

The engine checks them: its errors say more than a schema can.
"""

from typing import Annotated, TypeVar

from msgspec import Meta, UnsetType

from digestif.core.records import KEY_BYTES
from digestif.core.times import FARTHEST, LONGEST, MILLISECONDS_FROM

_KEY = {"minLength": 1, "maxLength": KEY_BYTES, "description": f"1 to {KEY_BYTES} bytes of UTF-8"}
KEY_SCHEMA = {"type": "string", **_KEY}

Key = Annotated[str, Meta(extra_json_schema=_KEY)]
Time = Annotated[float, Meta(extra_json_schema={"minimum": -FARTHEST, "maximum": FARTHEST})]  # in seconds
Timestamp = Annotated[
    float,
    Meta(description="seconds since the epoch", extra_json_schema={"exclusiveMaximum": MILLISECONDS_FROM}),
]
Within = Annotated[
    float,
    Meta(
        description="seconds within which the record is to be delivered",
        extra_json_schema={"minimum": 0, "maximum": LONGEST},
    ),
]

T = TypeVar("T")


def given(value: T | UnsetType) -> T | None:
    """The value of a parameter; None if it was left out."""
    return None if isinstance(value, UnsetType) else value


Limit = Annotated[int, Meta(ge=1, le=500)]
