"""PostgreSQL's errors in our words: what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from digestif.errors import DigestifError, Overloaded, StoreError, StoreUnavailable

# Somebody else was in the way, or quicker to make the same row, or we were frozen: try again, nothing was changed.
PASSING = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.UniqueViolation,
    errors.IdleInTransactionSessionTimeout,
)
GONE = (errors.UndefinedTable, errors.InvalidSchemaName, errors.ForeignKeyViolation)  # somebody dropped the tables
FULL = (errors.DiskFull, errors.OutOfMemory, errors.ProgramLimitExceeded)
READ_ONLY = (errors.ReadOnlySqlTransaction,)
MAY_ONLY_READ = (errors.InsufficientPrivilege, *READ_ONLY)
FORBIDDEN = (errors.InsufficientPrivilege, errors.InvalidPassword, errors.InvalidAuthorizationSpecification)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Tell errors of the driver as ours."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise translation(error, name) from error


def translation(error: Exception, name: str) -> DigestifError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, FULL):
        return Overloaded(f"{name}: {said}; nothing was changed, free some space and try again")
    if isinstance(error, READ_ONLY):
        return StoreUnavailable(f"{name}: it is a replica or read-only; connect to the primary")
    if isinstance(error, FORBIDDEN):
        return StoreUnavailable(f"{name}: {said}; check the user, the password and the rights on the schema")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout):
        return StoreUnavailable(f"{name}: {said}")
    return StoreError(f"{name}: {said}")
