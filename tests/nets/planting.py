"""Faults by name: what goes wrong, the function or constant that it changes, and how it is planted in a process."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, TypeVar

from msgspec.structs import replace

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

FAULTS: list["Fault"] = []
MISTAKES: list[str] = []  # errors that faults themselves raised in this process: they were written badly


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A function or a constant that is not what it should be."""

    says: str  # what goes wrong
    of: str  # the function, method or constant, as "module:name" below the package
    instead: Any  # the faulty function, which gets the sound one first; or the wrong value of a constant
    directed: str  # the sentence of the conformance suite that is meant for it
    model: bool = True  # the Hypothesis state machine finds it, too …
    vectors: bool = False  # … and the arithmetic

    @property
    def nets(self) -> list[str]:
        return ["directed", *(["model"] if self.model else []), *(["vectors"] if self.vectors else [])]

    def plant(self) -> None:
        """Make this process faulty, for good."""
        if isinstance(sound := target(self.of), FunctionType):
            exchange(sound, self.instead)
        else:
            flip(self.of, self.instead)


def fault(says: str, *, of: str, directed: str, model: bool = True, vectors: bool = False) -> Callable[[F], F]:
    """Register the function below as a fault: it is called in place of the sound one, which is its first argument."""

    def register(instead: F) -> F:
        FAULTS.append(Fault(says=says, of=of, instead=instead, directed=directed, model=model, vectors=vectors))
        return instead

    return register


def wrong_value(says: str, *, of: str, value: object, directed: str, model: bool = True, vectors: bool = False) -> None:
    """Register a constant with a wrong value as a fault."""
    FAULTS.append(Fault(says=says, of=of, instead=value, directed=directed, model=model, vectors=vectors))


# What faults have in common


def keeping(after: T, before: Any, *fields: str) -> T:
    """Return `after` with some fields as they were before."""
    return replace(after, **{field: getattr(before, field) for field in fields})  # type: ignore[type-var]


@contextmanager
def uncounted(rows: Any, counter: str) -> Iterator[None]:
    """Undo what the block counts in one counter of the ledger."""
    before = rows.tally[counter]
    yield
    rows.tally[counter] = before


# Planting


def target(of: str) -> Any:
    """Find the function or constant that a fault names."""
    module, _, name = of.partition(":")
    found: Any = import_module(f"digestif.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def exchange(function: FunctionType, instead: Callable[..., Any]) -> None:
    """Replace a function's code by a call of `instead`, with the sound function and the arguments, defaults filled in.

    So calls in its own module are reached, and callers that imported the function by name.
    """
    sound = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    sound.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(sound)

    def call(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named)
        given.apply_defaults()
        try:
            return instead(sound, *given.args, **given.kwargs)
        except Exception as error:
            note_mistake(error)
            raise

    function.__code__ = code_that_calls(call)


def code_that_calls(function: Callable[..., Any]) -> CodeType:
    """Make code that passes its arguments on to a function, which it holds as a constant."""

    def stand_in(*args: Any, **named: Any) -> Any:
        callee: Any = "callee"
        return callee(*args, **named)

    code = stand_in.__code__
    return code.replace(co_consts=tuple(function if const == "callee" else const for const in code.co_consts))


def note_mistake(error: Exception) -> None:
    """Note an error that was raised by a fault itself, not by the engine below it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and trace.tb_frame.f_globals["__name__"].startswith("tests.nets."):
        MISTAKES.append(f"{type(error).__name__}: {error}")


def flip(of: str, value: object) -> None:
    """Give a constant another value, also in modules that have imported it by name."""
    sound, name = target(of), of.partition(":")[2]
    for module in [module for known, module in sys.modules.items() if known.partition(".")[0] == "digestif"]:
        if vars(module).get(name) is sound:
            setattr(module, name, value)


# Whether a fault fits


def misfit(fault: Fault) -> str | None:
    """Say why a fault can't be planted in the code as it is; None if it can."""
    try:
        sound = target(fault.of)
    except (ImportError, AttributeError) as error:
        return str(error)
    if isinstance(sound, FunctionType):
        if sound.__code__.co_freevars:
            return f"{fault.of} uses names of an enclosing function, and can't be exchanged"
        return mismatch(sound, fault.instead)
    if not fault.of.partition(":")[2].isupper():
        return f"{fault.of} is neither a function nor a constant"
    is_another = type(fault.instead) is type(sound) and fault.instead != sound
    return None if is_another else f"{fault.of} is {sound!r}: give another value of its type"


def mismatch(sound: FunctionType, instead: Any) -> str | None:
    """Say which parameters of a faulty function have other names or places than those of the sound one."""
    if not isinstance(instead, FunctionType):
        return f"{sound.__qualname__} is a function: write what happens instead"
    parameters = inspect.signature(sound).parameters.values()
    named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    placed = ["sound", *(each.name for each in parameters if each.kind is not each.KEYWORD_ONLY)]
    signature = inspect.signature(instead)
    try:
        given = signature.bind(*placed, **{name: name for name in named})
    except TypeError as error:
        return f"{sound.__qualname__}{inspect.signature(sound)}: {error}"
    rest = {each.name for each in signature.parameters.values() if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    wrong = [f"{name} is its {value}" for name, value in given.arguments.items() if name not in rest and name != value]
    return f"{sound.__qualname__}: {', '.join(wrong)}" if wrong else None


def texts(code: CodeType) -> Iterator[str]:
    """Give the texts in a function, and in the functions inside it."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from texts(const)
        elif isinstance(const, tuple):
            yield from (text for text in const if isinstance(text, str))
        elif isinstance(const, str):
            yield const
