"""SQL in files: each statement under a line `-- name: …`, read as attributes of one object."""

from importlib.resources import files
from types import SimpleNamespace

_NAME = "-- name:"


def load_statements(package: str, file: str) -> SimpleNamespace:
    """The statements of a file beside an adapter, by name."""
    return parse_statements(files(package).joinpath(file).read_text("utf-8"), file)


def parse_statements(text: str, file: str) -> SimpleNamespace:
    """The statements of a text, by name, without comments."""
    statements: dict[str, list[str]] = {}
    name = None
    for line in text.splitlines():
        if line.startswith(_NAME):
            name = line.removeprefix(_NAME).strip()
            if not name.isidentifier() or name in statements:
                raise ValueError(f"{file}: {name!r} is not a name, or stands twice")
            statements[name] = []
        elif name is not None and not line.startswith("--"):
            statements[name].append(line)
    return SimpleNamespace(**{name: "\n".join(lines).strip() for name, lines in statements.items()})
