"""Loads the `Digests` of an application, named `module:digests`; the working directory is searched first."""

import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from digestif.aio import AsyncDigests
from digestif.core.texts import did_you_mean, reason_of, shortened
from digestif.digests import Digests
from digestif.dsn import redacted
from digestif.errors import ConfigError

ATTRIBUTE = "digests"  # unless another one is named


def load(app: str) -> Digests | AsyncDigests:
    """Import `module:attribute`. Raises ConfigError with what is missing."""
    module_name, _, attribute = app.partition(":")
    attribute = attribute or ATTRIBUTE
    found: Any = _module(module_name)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ConfigError(f"{app}: {module_name} has no {attribute!r}{_hint(found, name)}")
        found = getattr(found, name)
    if not isinstance(found, Digests | AsyncDigests):
        raise ConfigError(f"{app}: {attribute} is {shortened(found, 40)}, not a Digests; name one as module:attribute")
    return found


def load_engine(app: str) -> Digests:
    """The same as a `Digests`, for commands, which make one call after the other."""
    found = load(app)
    return found._digests if isinstance(found, AsyncDigests) else found


def load_served(app: str) -> Digests | AsyncDigests:
    """The same for a worker: refused without a handler."""
    found = load(app)
    if not found.attempts().handlers:
        raise ConfigError(f"{app}: it has no handler; register one with @{ATTRIBUTE}.handler('mail:*')")
    return found


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
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> ConfigError:
    """Why an application's module can't be imported, with its traceback as a note."""
    refusal = ConfigError(f"{name}: can't be imported: {_place(error)}")
    refusal.add_note(_trace(error))
    return refusal


def _trace(error: BaseException) -> str:
    """The traceback without the frames of the import, and with passwords in DSNs hidden."""
    trace = error.__traceback__
    while trace is not None and _is_importing(trace):
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    return "\n".join(redacted(line) if "://" in line else line for line in lines)


def _is_importing(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file == __file__ or "importlib" in file


def _place(error: BaseException) -> str:
    """An error of an application's module, and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or isinstance(error, SyntaxError):
        return reason_of(error)
    return f"{reason_of(error)} ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def _hint(owner: object, name: str) -> str:
    engines = [known for known, value in vars(owner).items() if isinstance(value, Digests | AsyncDigests)]
    return did_you_mean(name, engines) if engines else "; there is no Digests in it"
