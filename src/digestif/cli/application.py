"""Loads the `Digests` of an application, named `module:digests`; the working directory is searched first.

Instead of a `Digests`, a function that makes one may be named.
"""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

from digestif.aio import AsyncDigests
from digestif.core.texts import did_you_mean, message_of, reason_of, shortened
from digestif.digests import Digests
from digestif.dsn import redacted_lines
from digestif.errors import ConfigError, DigestifError

ATTRIBUTE = "digests"  # unless another one is named
_MAKER = re.compile(r"make|create|(\w+_)?digests")


class Loaded(NamedTuple):
    """The engine of an application."""

    digests: Digests | AsyncDigests
    made: bool  # by a function of the application, for this command alone

    @property
    def engine(self) -> Digests:
        return self.digests.sync if isinstance(self.digests, AsyncDigests) else self.digests

    def close(self) -> None:
        """Close what was made for this command."""
        if self.made:
            self.engine.close()


def load(app: str) -> Loaded:
    """Import `module:attribute`, and call it if it is a function. Raises ConfigError with what is missing."""
    module_name, _, attribute = app.partition(":")
    attribute = attribute or ATTRIBUTE
    found: Any = _module(module_name)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ConfigError(f"{app}: {module_name} has no {attribute!r}{_hint(module_name, found, name)}")
        found = getattr(found, name)
    is_factory = inspect.isroutine(found) or isinstance(found, partial)
    made = _made(app, attribute, found) if is_factory else found
    if not isinstance(made, Digests | AsyncDigests):
        what = f"{attribute}() gave" if is_factory else f"{attribute} is"
        raise ConfigError(
            f"{app}: {what} {shortened(made, 40)}, not a Digests; name one as module:attribute, or a function "
            "that returns one"
        )
    return Loaded(made, is_factory)


def _made(app: str, attribute: str, make: Callable[..., Any]) -> Any:
    """What a function of the application makes."""
    if needed := _needed(make):
        raise ConfigError(
            f"{app}: {attribute} needs arguments ({', '.join(needed)}), and is called without; give them defaults"
        )
    if inspect.iscoroutinefunction(make):
        raise ConfigError(f"{app}: {attribute} is a coroutine; name a plain function that returns a Digests")
    try:
        return make()
    except (Exception, SystemExit) as error:
        raise _broken(f"{app}: {attribute}() failed", error) from error


def _needed(make: Callable[..., Any]) -> list[str]:
    """The arguments without which a function can't be called."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except ValueError:  # a function in C that does not say
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


@contextmanager
def opened(app: str) -> Iterator[Digests]:
    """The engine for a command, which makes one call after the other."""
    loaded = load(app)
    try:
        yield loaded.engine
    finally:
        loaded.close()


def load_served(app: str) -> Loaded:
    """The same for a worker: refused without a handler."""
    loaded = load(app)
    if not loaded.digests.engine.handlers:
        loaded.close()
        raise ConfigError(f"{app}: it has no handler; register one with @{ATTRIBUTE}.handler('mail:*')")
    return loaded


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.startswith("."):
        raise ConfigError(f"{name or ':'}: write module:{ATTRIBUTE}, with the module as it is imported")
    if name.endswith(".py") or "/" in name:
        raise ConfigError(f"{name}: write the module as it is imported: {Path(name).stem}:{ATTRIBUTE}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{name}: there is no module {error.name!r} in {here} or among what is installed"
            ) from None
        raise _broken(f"{name}: can't be imported", error) from error
    except (Exception, SystemExit) as error:
        raise _broken(f"{name}: can't be imported", error) from error


def _broken(what: str, error: BaseException) -> ConfigError:
    """Why an application can't be used; if the message may not be enough, with its traceback as a note."""
    if isinstance(error, DigestifError) or _names_an_extra(error):  # its message says what to do
        return ConfigError(f"{what}: {_located(error, message_of(error))}")
    refusal = ConfigError(f"{what}: {_located(error, reason_of(error))}")
    refusal.add_note(_trace(error))
    return refusal


def _trace(error: BaseException) -> str:
    """The traceback without the frames of the import, and with passwords in DSNs hidden."""
    trace = error.__traceback__
    while trace is not None and _is_importing(trace):
        trace = trace.tb_next
    return redacted_lines("".join(traceback.format_exception(type(error), error, trace)))


def _is_importing(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file == __file__ or "importlib" in file


def _names_an_extra(error: BaseException) -> bool:
    """Return True if Digestif says which of its extras is missing."""
    return isinstance(error, ModuleNotFoundError) and isinstance(error.__cause__, ModuleNotFoundError)


def _located(error: BaseException, reason: str) -> str:
    """The reason of an error, and the innermost line outside of Digestif and Python's own modules."""
    found, trace = None, error.__traceback__
    while trace is not None:
        found = trace if _is_of_application(trace) else found
        trace = trace.tb_next
    reason = redacted_lines(reason)
    if found is None or isinstance(error, SyntaxError):
        return reason
    return f"{reason} ({Path(found.tb_frame.f_code.co_filename).name}, line {found.tb_lineno})"


def _is_of_application(trace: TracebackType) -> bool:
    package = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return package != "digestif" and package not in sys.stdlib_module_names


def _hint(module: str, owner: object, name: str) -> str:
    engines = [known for known, value in vars(owner).items() if isinstance(value, Digests | AsyncDigests)]
    if engines:
        return did_you_mean(name, engines)
    if isinstance(owner, ModuleType) and (makers := _makers(owner)):
        return f"; name the function that makes one: {', '.join(f'{module}:{maker}' for maker in makers)}"
    return "; there is no Digests in it"


def _makers(module: ModuleType) -> list[str]:
    """The functions of a module that seem to make a Digests, by their names or by what they say they return."""
    own = {name: value for name, value in vars(module).items() if inspect.isfunction(value) and not _needed(value)}
    return [
        name
        for name, value in own.items()
        if value.__module__ == module.__name__ and (_MAKER.fullmatch(name) or _returns_digests(value))
    ]


def _returns_digests(function: Callable[..., Any]) -> bool:
    returned = getattr(function, "__annotations__", {}).get("return")
    return returned in (Digests, AsyncDigests, "Digests", "AsyncDigests")
