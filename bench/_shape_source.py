"""What the source of a tree looks like, read without importing it: classes, uses of private members, lines."""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

FACES = (("digests.py", "Digests"), ("aio.py", "AsyncDigests"))
KINDS = (".py", ".lua", ".sql")
SMALL = 60  # lines of a small file
RECORDS = {"NamedTuple", "Struct"}  # bases whose annotated names are fields

Function = ast.FunctionDef | ast.AsyncFunctionDef
Assignment = tuple[ast.expr, ast.expr | None]  # a target and its value; None if unknown


class Class(NamedTuple):
    """A class, and the path of its module in the package."""

    module: str
    node: ast.ClassDef


class Source:
    """The package `digestif` of a tree, or any other folder with modules."""

    def __init__(self, package: Path) -> None:
        self._package = package

    @cached_property
    def _texts(self) -> dict[str, str]:
        paths = sorted(path for path in self._package.rglob("*") if path.suffix in KINDS)
        return {path.relative_to(self._package).as_posix(): path.read_text(encoding="utf-8") for path in paths}

    @cached_property
    def _modules(self) -> dict[str, ast.Module]:
        return {path: ast.parse(text) for path, text in self._texts.items() if path.endswith(".py")}

    # Lines

    def sizes(self) -> dict[str, Any]:
        """Count lines and files of Python, Lua and SQL, in all and by room."""
        lines = {path: len(text.splitlines()) for path, text in self._texts.items()}
        rooms: dict[str, dict[str, int]] = {}
        for path, count in lines.items():
            room = rooms.setdefault(room_of(path), {"lines": 0, "files": 0})
            room["lines"] += count
            room["files"] += 1
        small = sum(count <= SMALL for count in lines.values())
        return {"lines": sum(lines.values()), "files": len(lines), "small": small, "rooms": rooms}

    # Classes

    def largest_classes(self, rooms: Collection[str], *, count: int = 3) -> list[dict[str, Any]]:
        """Return the classes with the most fields, with their booleans, and the modules that set these from outside.

        A class includes the fields of its bases.
        """
        paths = [path for path in self._modules if room_of(path) in rooms]
        classes = [Class(path, node) for path in paths for node in _classes_in(self._modules[path])]
        largest: list[Class] = []
        for one in sorted(classes, key=lambda one: -len(self._fields(one))):
            if not any(one in self._family(larger) for larger in largest):
                largest.append(one)
        return [self._described(one) for one in largest[:count]]

    def _described(self, one: Class) -> dict[str, Any]:
        first, *bases = self._family(one)
        name = f"{first.node.name}({', '.join(base.node.name for base in bases)})" if bases else first.node.name
        fields = self._fields(one)
        booleans = self._booleans(one, fields)
        homes = {each.module for each in (first, *bases)}
        elsewhere = {(field, path) for field, path, _ in self._settings(one, booleans) if path not in homes}
        return {
            "name": name,
            "module": one.module,
            "fields": sorted(fields),
            "booleans": sorted(booleans),
            "set_elsewhere": {
                field: sorted(path for each, path in elsewhere if each == field)
                for field in sorted({field for field, _ in elsewhere})
            },
        }

    def _fields(self, one: Class) -> set[str]:
        """Return slots, annotated fields of data classes, and what `__init__` sets; those of bases, too."""
        family = self._family(one)
        is_record = any(_is_record(each.node) for each in family)
        return {name for each in family for name in _own_fields(each.node, is_record=is_record)}

    def _booleans(self, one: Class, fields: set[str]) -> set[str]:
        """Return fields that are annotated as bool, or set to True or False in the class or through an instance."""
        within = {name for each in self._family(one) for name in _own_booleans(each.node)}
        outside = {name for name, _, value in self._settings(one, fields) if _is_boolean(value)}
        return fields & (within | outside)

    def _settings(self, one: Class, fields: Collection[str]) -> Iterator[tuple[str, str, ast.expr | None]]:
        """Yield where one of these fields is set, not in `self`, and to what, in modules that name the class."""
        named = re.compile("|".join(rf"\b{each.node.name}\b" for each in self._family(one)))
        for path, module in self._modules.items():
            if named.search(self._texts[path]):
                for target, value in _assignments(module):
                    if isinstance(target, ast.Attribute) and target.attr in fields and not _is_self(target.value):
                        yield target.attr, path, value

    def _family(self, one: Class) -> list[Class]:
        """Return the class and its bases, as far as they are in the package."""
        bases = [self._resolved(one.module, name) for name in _base_names(one.node)]
        return [one, *(each for base in bases if base for each in self._family(base))]

    def _resolved(self, path: str, name: str) -> Class | None:
        """Return the class that has this name in a module, where it is defined or imported."""
        for node in self._modules[path].body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return Class(path, node)
            if isinstance(node, ast.ImportFrom) and node.module:
                original = next((each.name for each in node.names if (each.asname or each.name) == name), None)
                home = self._path_of(node.module)
                if original and home:
                    return self._resolved(home, original)
        return None

    def _path_of(self, module: str) -> str | None:
        inner = module.partition(".")[2].replace(".", "/")
        return next((path for path in (f"{inner}.py", f"{inner}/__init__.py") if path in self._modules), None)

    # Private members

    def private_uses(self) -> list[str]:
        """Return where code uses private members of the faces through anything but `self`, as lines of text."""
        found = [self._resolved(path, name) for path, name in FACES if path in self._modules]
        names = {name for face in found if face for one in self._family(face) for name in _private_members(one.node)}
        uses = [
            (path, node.lineno, ast.unparse(node))
            for path, module in self._modules.items()
            for node in ast.walk(module)
            if isinstance(node, ast.Attribute) and node.attr in names and not _is_self(node.value)
        ]
        return [f"{path}:{line}: {use}" for path, line, use in sorted(uses)]


def room_of(path: str) -> str:
    """Return the first folder of a path; nothing for modules beside the rooms."""
    room, slash, _ = path.partition("/")
    return room if slash else ""


def _classes_in(module: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(module) if isinstance(node, ast.ClassDef))


def _base_names(node: ast.ClassDef) -> list[str]:
    return [_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]


def _is_record(node: ast.ClassDef) -> bool:
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    names = {ast.unparse(each).rpartition(".")[2] for each in decorators}
    return "dataclass" in names or not RECORDS.isdisjoint(_base_names(node))


def _own_fields(node: ast.ClassDef, *, is_record: bool) -> Iterator[str]:
    for step in node.body:
        if isinstance(step, ast.Assign) and any(_is_name(target, "__slots__") for target in step.targets):
            names = {each.value for each in ast.walk(step.value) if isinstance(each, ast.Constant)}
            yield from (str(name) for name in names - {"__weakref__", "__dict__"})
        elif is_record and isinstance(step, ast.AnnAssign) and isinstance(step.target, ast.Name):
            if "ClassVar" not in ast.unparse(step.annotation):
                yield step.target.id
        elif isinstance(step, Function) and step.name == "__init__":
            yield from (target.attr for target, _ in _assignments(step) if _is_own(target))


def _own_booleans(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.annotation) in ("bool", "bool | None"):
            yield _last_name(each.target)
        elif isinstance(each, Function):
            arguments = [*each.args.args, *each.args.kwonlyargs]
            flags = {one.arg for one in arguments if one.annotation and ast.unparse(one.annotation) == "bool"}
            passed = [
                target for target, value in _assignments(each) if isinstance(value, ast.Name) and value.id in flags
            ]
            yield from (_last_name(target) for target in passed)
    yield from (_last_name(target) for target, value in _assignments(node) if _is_boolean(value))


def _private_members(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of methods, of what the body of the class assigns, and of what methods set in `self`."""
    methods = [step.name for step in node.body if isinstance(step, Function)]
    assigned = [
        _last_name(target) for step in node.body if not isinstance(step, Function) for target, _ in _assignments(step)
    ]
    own = [target.attr for target, _ in _assignments(node) if _is_own(target)]
    yield from (name for name in [*methods, *assigned, *own] if name.startswith("_") and not name.startswith("__"))


def _assignments(node: ast.AST) -> Iterator[Assignment]:
    """Yield what is assigned in a piece of code, in pairs also where several names are set together."""
    for step in ast.walk(node):
        if isinstance(step, ast.Assign):
            for target in step.targets:
                yield from _pairs(target, step.value)
        elif isinstance(step, ast.AnnAssign | ast.AugAssign):
            yield step.target, step.value
        elif isinstance(step, ast.For | ast.AsyncFor):
            yield from _pairs(step.target, None)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[Assignment]:
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
        return
    values: Sequence[ast.expr | None] = [None] * len(target.elts)
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(values):
        values = value.elts
    for inner, each in zip(target.elts, values, strict=True):
        yield from _pairs(inner, each)


def _is_own(target: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(target, ast.Attribute) and _is_self(target.value)


def _is_self(node: ast.expr) -> bool:
    return _is_name(node, "self", "cls")


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_boolean(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
