"""Stores of rows (memory, SQLite, PostgreSQL): the verbs that they share, over the `Rows` that each provides."""

from digestif.stores.rows.store import RowStore
from digestif.stores.rows.view import (
    NEVER,
    UNBOUNDED,
    DocumentRow,
    Found,
    LetterRow,
    Marks,
    Rows,
    Size,
    TimelineRow,
    Waiting,
    marks,
    within,
)

__all__ = [
    "NEVER",
    "UNBOUNDED",
    "DocumentRow",
    "Found",
    "LetterRow",
    "Marks",
    "RowStore",
    "Rows",
    "Size",
    "TimelineRow",
    "Waiting",
    "marks",
    "within",
]
