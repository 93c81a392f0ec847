"""Faults: the one table from what went wrong on the way to what is done about it."""

from enum import Enum, auto
from ssl import SSLCertVerificationError
from typing import NamedTuple

from redis import exceptions

from digestif.errors import ConfigError, DigestifError, Overloaded, StoreError, StoreUnavailable
from digestif.stores.redis.commands import OURS, Refused


class Remedy(Enum):
    """What may help an unanswered command."""

    PAUSE = auto()  # send it again after a while
    REROUTE = auto()  # look who is in charge now, then the same
    LOAD = auto()  # send the script itself, at once
    FOLLOW = auto()  # the slot has moved: go there, at once
    ASK = auto()  # the slot is moving: ask there this once, at once
    NONE = auto()  # nothing: that is the answer


class Final(NamedTuple):
    """How a fault that nothing helps against is told."""

    error: type[DigestifError]
    advice: str


REMEDIES = {
    "ASK": Remedy.ASK,
    "BUSY": Remedy.PAUSE,
    "CLUSTERDOWN": Remedy.REROUTE,
    "LOADING": Remedy.PAUSE,
    "MASTERDOWN": Remedy.REROUTE,
    "MISCONF": Remedy.PAUSE,
    "MOVED": Remedy.FOLLOW,
    "NOREPLICAS": Remedy.PAUSE,
    "NOSCRIPT": Remedy.LOAD,
    "READONLY": Remedy.REROUTE,
    "TRYAGAIN": Remedy.PAUSE,
    "UNBLOCKED": Remedy.REROUTE,  # the server became a replica while the command waited
}
_CREDENTIALS = Final(ConfigError, "check user and password in the DSN")
FINALS = {
    "DENIED": Final(
        ConfigError, "the server is in protected mode: give it a password, or let it listen on loopback only"
    ),
    "NOAUTH": _CREDENTIALS,
    "NOPERM": Final(
        ConfigError, "let the user (ACL SETUSER) run scripts and all that they do with the namespace's keys"
    ),
    "OOM": Final(
        Overloaded,
        "the memory of the server is full (maxmemory): delivery goes on and makes room; raise maxmemory, or add less",
    ),
    "WRONGPASS": _CREDENTIALS,
}
_PLAIN = Final(StoreError, "")
_WORDS: dict[type[BaseException], str] = {  # redis-py keeps these words only in the class of the error
    exceptions.AskError: "ASK",
    exceptions.AuthenticationError: "WRONGPASS",
    exceptions.AuthenticationWrongNumberOfArgsError: "WRONGPASS",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.MovedError: "MOVED",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.TryAgainError: "TRYAGAIN",
}
UNREACHABLE = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError)
FAILURES = (exceptions.ResponseError, *UNREACHABLE)  # of a connection, or of the greetings at its beginning


def remedy(error: Exception) -> Remedy:
    """What may help."""
    word = word_of(error)
    if word in FINALS:
        return Remedy.NONE
    if isinstance(error, UNREACHABLE) and word not in REMEDIES:
        return Remedy.REROUTE
    return REMEDIES.get(word, Remedy.NONE)


def final(error: Exception, name: str) -> Exception:
    """The answer to a command that the node of this name refused for good."""
    word = word_of(error)
    if word.startswith(OURS):
        return Refused(word, str(error).partition(" ")[2])
    kind, advice = FINALS.get(word, _PLAIN)
    told = kind(f"{name}: {_text(error)}; {advice}" if advice else f"{name}: {_text(error)}")
    told.__cause__ = error
    return told


def unavailable(error: BaseException, name: str, *, patience: float) -> StoreUnavailable:
    """The answer to a command for which nothing helped in time."""
    told = StoreUnavailable(
        f"{name}: no answer within {patience:g} s, last error: {_text(error)}; "
        "check that the server is up and can be reached. What was not acknowledged may be added again"
    )
    told.__cause__ = error
    return told


def redirection(error: Exception) -> tuple[str, int]:
    """Where a MOVED or ASK reply points to; no host means that of the node that said so."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return host, int(port)


def word_of(error: BaseException) -> str:
    """The first word of an error reply, and of one error that comes before any reply."""
    if isinstance(error.__context__, SSLCertVerificationError):
        return "CERTIFICATE"
    return _WORDS.get(type(error)) or str(error).partition(" ")[0]


def _text(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
