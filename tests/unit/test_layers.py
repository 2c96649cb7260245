"""Each library has one home, the theory depends on nothing, and only the surface prints."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "spec_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
HOMES = {
    "spec_cli.llama.bindings": ("llama/",),
    "huggingface_hub": ("hub.py",),
    "tomlkit": ("registry_edit.py",),
    "typer": ("cli/",),
    "rich": ("cli/", "render/"),
    "prompt_toolkit": ("cli/",),
}
THEORY = ("numpy", "spec_cli.spec", "spec_cli.errors")


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def is_in(module: str, library: str) -> bool:
    return f"{module}.".startswith(f"{library}.")


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_in_its_home_only(library: str) -> None:
    importers = {name_of(f) for f in FILES if any(is_in(i, library) for i in imports(f))}
    assert importers
    assert all(importer.startswith(HOMES[library]) for importer in importers)


def test_llama_cpp_is_loaded_through_its_bindings_alone() -> None:
    assert not [f for f in FILES if any(is_in(i, "llama_cpp") for i in imports(f))]


@pytest.mark.parametrize("file", [f for f in FILES if name_of(f).startswith("spec/")], ids=name_of)
def test_the_theory_imports_numpy_and_itself_only(file: Path) -> None:
    foreign = [i for i in imports(file) if i.partition(".")[0] not in sys.stdlib_module_names]
    assert all(i.startswith(THEORY) for i in foreign)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_nothing_prints_but_the_surface(file: Path) -> None:
    calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
    prints = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert not prints or name_of(file).startswith(("cli/", "render/"))
