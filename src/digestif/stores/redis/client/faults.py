"""Faults: one table from an error to its remedy, and to the error that the caller gets if nothing helps."""

from enum import Enum, auto
from ssl import SSLCertVerificationError
from typing import NamedTuple

from redis import exceptions

from digestif.errors import ConfigError, DigestifError, Overloaded, StoreError, StoreUnavailable
from digestif.stores.redis.client.commands import OURS, ScriptRefused, WrongType


class Remedy(Enum):
    """How to retry a command that failed."""

    RETRY = auto()  # refresh the topology, and send it again after a pause
    LOAD = auto()  # send the script itself, at once
    FOLLOW = auto()  # its slot has moved: send it to the new node, at once
    ASK = auto()  # its slot is moving: send it to the importing node this once, at once
    IN_TURN = auto()  # it came before another one that has to be done first: send it again behind that
    NONE = auto()  # do not retry: the error is the answer


class Fault(NamedTuple):
    """A kind of failure: the remedy, and if that does not help the advice in the error that is raised."""

    remedy: Remedy
    advice: str = ""
    error: type[DigestifError] = StoreUnavailable


_LOST = Fault(Remedy.RETRY, "check that the server is up and can be reached")
_PASSWORD = Fault(Remedy.NONE, "check user and password", ConfigError)
_OTHER = Fault(Remedy.NONE, "", StoreError)

TABLE = {  # by the first word of an error reply
    "ASK": Fault(Remedy.ASK, "a slot of the cluster is being moved; see that this ends"),
    "BUSY": Fault(Remedy.RETRY, "a script of some client does not end (SCRIPT KILL)"),
    "CERTIFICATE": Fault(Remedy.NONE, "name its authority with ca=/path, or trust it with verify=no", ConfigError),
    "CLUSTERDOWN": Fault(Remedy.RETRY, "see CLUSTER INFO: a primary may be down without a replica to take over"),
    "DIGESTIF_GAP": Fault(Remedy.IN_TURN, "calls before it did not arrive"),
    "DENIED": Fault(Remedy.NONE, "the server is in protected mode; give it a password", ConfigError),
    "LOADING": Fault(Remedy.RETRY, "the server is still reading its files; try again"),
    "MASTERDOWN": Fault(Remedy.RETRY, "this is a replica that lost its primary"),
    "MISCONF": Fault(Remedy.RETRY, "the server can't save to its disk; see its log"),
    "MOVED": Fault(Remedy.FOLLOW, "the nodes of the cluster don't agree; see CLUSTER NODES"),
    "NOAUTH": _PASSWORD,
    "NOPERM": Fault(Remedy.NONE, "allow the user (ACL SETUSER) scripts, and the keys of the namespace", ConfigError),
    "NOREPLICAS": Fault(Remedy.RETRY, "too few replicas are connected; check them"),
    "NOSCRIPT": Fault(Remedy.LOAD, "the server forgets scripts at once"),
    "OOM": Fault(
        Remedy.NONE, "its memory is full (maxmemory): delivery goes on and makes room; give it more", Overloaded
    ),
    "READONLY": Fault(Remedy.RETRY, "this is a replica; name the primary"),
    "TRYAGAIN": Fault(Remedy.RETRY, "a slot of the cluster is being moved; see that this ends"),
    "UNBLOCKED": Fault(Remedy.RETRY, "the server became a replica meanwhile"),
    "WRONGPASS": _PASSWORD,
    "WRONGTYPE": Fault(
        Remedy.NONE,
        "another program uses the keys of this namespace; digestif repair sets aside what it wrote",
        WrongType,
    ),
}

_WORDS: dict[type[BaseException], str] = {  # redis-py keeps the word of these only as the class
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
FAILURES = (exceptions.ResponseError, *UNREACHABLE)  # of a connection, or of its greetings


def remedy(error: Exception) -> Remedy:
    return _fault(error).remedy


def final(error: Exception, name: str, *, may_be_done: bool = False) -> Exception:
    """The answer to a command that the node of this name refused, and would refuse again.

    Full memory refuses also the repetition of a command that was done, before it could be answered as the first time.
    """
    word = _word(error)
    if word.startswith(OURS):
        return ScriptRefused(word, str(error).partition(" ")[2])
    answer = _translated(error, f"{name}: {_text(error)}")
    if not may_be_done or not isinstance(answer, Overloaded):
        return answer
    unknown = StoreUnavailable(f"{answer}. Its first try got no answer, and may have been done")
    unknown.__cause__ = error
    return unknown


def unavailable(error: Exception, name: str, *, patience: float) -> Exception:
    """The answer to a command for which no remedy helped in time."""
    waited = f"no answer within {patience:g} s: " if patience > 0 else ""  # it was tried once
    return _translated(error, f"{name}: {waited}{_text(error)}")


def again(error: Exception) -> Exception:
    """A copy of an error that several threads may raise."""
    return type(error)(*error.args)


def redirection(error: Exception) -> tuple[str, int]:
    """Where a MOVED or ASK reply points to."""
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return host, int(port)


def _fault(error: Exception) -> Fault:
    unknown = _LOST if isinstance(error, UNREACHABLE) else _OTHER
    return TABLE.get(_word(error), unknown)


def _translated(error: Exception, text: str) -> DigestifError:
    fault = _fault(error)
    translated = fault.error(f"{text}; {fault.advice}" if fault.advice else text)
    translated.__cause__ = error
    return translated


def _word(error: Exception) -> str:
    if isinstance(error.__context__, SSLCertVerificationError):
        return "CERTIFICATE"
    return _WORDS.get(type(error)) or str(error).partition(" ")[0]


def _text(error: Exception) -> str:
    """The whole message of the server or the system."""
    text = str(error).rstrip(".") or type(error).__name__
    word = _WORDS.get(type(error))
    return f"{word} {text}" if word else text
