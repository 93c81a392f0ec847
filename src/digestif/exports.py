"""Imports that wait: public names on first use, so that `import digestif` stays quick, and what extras install."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module


def lazy(
    package: str, homes: Mapping[str, str], **extras: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    `homes` maps a module to the names that it defines, separated by spaces; a module that is public as a whole is
    listed with its own name. `extras` maps a third-party module to the extra that installs it; the error for a
    missing one names the extra.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> object:  # noqa: N807  # becomes the package's own
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            home = import_module(home_of[name])
        except ModuleNotFoundError as missing:
            extra = extras.get(missing.name or "")
            if extra is None:
                raise
            raise _named(f"{package}.{name}", missing, extra) from missing
        return home if home.__name__.endswith(f".{name}") else getattr(home, name)

    return __getattr__, lambda: sorted(home_of)


@contextmanager
def needs(extra: str, *, module: str) -> Iterator[None]:
    """Around the imports of a module that needs an extra: the error for a missing one says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "digestif":
            raise
        raise _named(module, missing, extra) from missing


def _named(what: str, missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"{what} {explain_missing(missing.name, extra=extra)}", name=missing.name)


def explain_missing(module: str | None, *, extra: str) -> str:
    """Return the end of the message for a missing module: its extra, and a command that installs what the extra brings.

    The command names the packages, not Digestif: the installed copy may come from a clone, a wheel or a registry, and
    only the packages are in a registry in each case.
    """
    import shlex

    packages = _packages(extra)
    remedy = f"pip install {shlex.join(packages)}" if packages else "install Digestif with it"
    return f"needs the module {module} of the extra {extra}; {remedy}"


def _packages(extra: str) -> list[str]:
    """Return what an extra installs, as the installed package declares it; nothing for a copy without metadata."""
    from importlib.metadata import PackageNotFoundError, requires  # slow to import, and only errors need it

    try:
        declared = requires("digestif") or []
    except PackageNotFoundError:
        return []
    lines = [line.replace('"', "'").partition(";") for line in declared]
    return [package.strip() for package, _, condition in lines if f"extra == '{extra}'" in condition]
