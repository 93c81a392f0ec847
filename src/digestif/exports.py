"""Public names that a package imports on first use: `import digestif` and `digestif --help` stay quick."""

from collections.abc import Callable, Mapping
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
            message = f"{package}.{name} needs {missing.name}: pip install 'digestif[{extra}]'"
            raise ModuleNotFoundError(message, name=missing.name) from missing
        return home if home.__name__.endswith(f".{name}") else getattr(home, name)

    return __getattr__, lambda: sorted(home_of)
