"""What is public: five packages name it in `__all__`, the docs explain it, and examples import nothing else."""

import ast
import types
from collections.abc import Iterator
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest

import digestif
import digestif.channels
import digestif.client
import digestif.integrations.django
import digestif.stores
import digestif.testing
from digestif import AsyncDigests, Digests, Worker
from tests.docs.pages import DOCS, PAGES, blocks, code_names

PACKAGES = [digestif, digestif.channels, digestif.client, digestif.stores, digestif.testing]
INTEGRATIONS = {f"digestif.integrations.{name}" for name in ("celery", "django", "logging", "prometheus")}
EXPLAINED_IN = {
    "digestif": "reference/api.md",
    "digestif.channels": "reference/channels.md",
    "digestif.client": "reference/client.md",
    "digestif.stores": "how-to/write-a-store.md",
    "digestif.testing": "reference/testing.md",
}

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)


@each_package
def test_all_is_sorted(package: types.ModuleType) -> None:
    assert list(package.__all__) == sorted(package.__all__, key=lambda name: (not name.isupper(), name))


@each_package
def test_all_is_the_public_namespace(package: types.ModuleType) -> None:
    """Nothing else is in it, but submodules that have been imported."""
    lazy = [name for names in package._HOMES.values() for name in names.split()]
    eager = [
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    ]

    assert sorted(lazy) == sorted(package.__all__)
    assert eager == []
    assert dir(package) == sorted(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@each_package
def test_every_public_name_is_explained(package: types.ModuleType) -> None:
    explained = code_names((DOCS / EXPLAINED_IN[package.__name__]).read_text("utf-8"))

    assert [name for name in package.__all__ if name not in explained] == []


def test_every_public_name_of_the_django_app_is_explained() -> None:
    explained = code_names((DOCS / "how-to" / "django.md").read_text("utf-8"))

    assert [name for name in digestif.integrations.django.__all__ if name not in explained] == []


@each_package
def test_an_unknown_name_is_refused_by_its_package(package: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'unknown'"):
        _ = package.unknown


def test_private_members_of_the_engines_and_of_workers_are_used_by_these_classes_alone() -> None:
    """Integrations, the service and the commands use `Digests.engine`, `Worker.held`, or public names."""
    private = {
        name
        for kind in (*Digests.__mro__, AsyncDigests, Worker)
        if kind is not object
        for name in private_members(kind)
    }
    source = Path(digestif.__file__).parent
    uses = [
        f"{path.relative_to(source)}: {use}"
        for path in source.rglob("*.py")
        for use in uses_from_outside(private, path.read_text("utf-8"))
    ]

    assert {"_planned", "_was_requeued", "_accept_all", "_drive", "_threads", "_submit", "_loop"} <= private
    assert list(uses_from_outside(private, "service.digests._submit(call)")) == ["service.digests._submit"]
    assert uses == []


def private_members(kind: type) -> Iterator[str]:
    """The private methods that a class defines, and the private attributes that it sets."""
    for node in ast.walk(ast.parse(getsource(kind))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if is_private(name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) if is_private(name):
                yield name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def uses_from_outside(private: set[str], text: str) -> Iterator[str]:
    """Where Python code uses one of these members of another object than `self`."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if name in private:
                yield ast.unparse(node)


def test_the_examples_of_the_docs_import_public_names_alone() -> None:
    public = {f"{package.__name__}.{name}" for package in PACKAGES for name in package.__all__}
    imported = {name for page in PAGES for block in blocks(page.read_text("utf-8")) for name in imports(block.text)}

    assert {name for name in imported - public if name.rpartition(".")[0] not in INTEGRATIONS} == set()
    assert {"digestif.Digests", "digestif.stores.Dsn", "digestif.channels.Channel"} <= imported
    assert all(hasattr(import_module(name), "__doc__") for name in INTEGRATIONS)


def imports(text: str) -> list[str]:
    """What a block imports from Digestif; nothing if it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return []
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if name.startswith("digestif.")]
