"""The kernel is small, knows no method, and depends on little: what a reviewer reads, counted."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lookalike
from lookalike import methods

ROOT = Path(lookalike.__file__).parent
KERNEL = ROOT / "privacy" / "kernel"

MAX_LINES = 1120
"""Lines of the kernel that are not blank: code, comments and proofs."""
MAX_CLOSURE = 6850
"""The same, of all modules outside the kernel that it imports, directly or not; the test says what for."""


def lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text().splitlines())


def module_path(name: str) -> Path | None:
    """The file of a module of the package, or None where the name is no module."""
    inner = ROOT.joinpath(*name.split(".")[1:])
    return next((path for path in (inner.with_suffix(".py"), inner / "__init__.py") if path.is_file()), None)


def imported(path: Path) -> set[Path]:
    """The modules of the package that a module imports anywhere, imports for the type checker included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {module_path(name) for name in names if name.startswith("lookalike.")}
    return {module for module in found if module is not None and lines(module)}


def closure() -> dict[str, int]:
    """Lines of every module outside the kernel that the kernel needs."""
    reached: set[Path] = set()
    waiting = set(KERNEL.glob("*.py"))
    while waiting:
        path = waiting.pop()
        reached.add(path)
        waiting |= imported(path) - reached
    outside = sorted(path for path in reached if path.parent != KERNEL)
    return {str(path.relative_to(ROOT)): lines(path) for path in outside}


def test_the_kernel_is_small() -> None:
    sizes = {path.name: lines(path) for path in sorted(KERNEL.glob("*.py"))}
    print(*(f"{size:5} {name}" for name, size in sizes.items()), f"{sum(sizes.values()):5} in all", sep="\n")  # noqa: T201
    assert sum(sizes.values()) <= MAX_LINES, sizes


def test_what_the_kernel_imports_is_bounded() -> None:
    """Shown by `pytest -rA`: the structure of tables (schema), reading of files (sources), and plain arithmetic.

    Most of it reads values, because every value of every format must have a code and none may raise an error: texts of
    numbers, money and times in their formats (about 800 lines), classes of values and of rows that discovery counts
    (400), rules that rows may break (980), files of seven formats (1,100), engines and the source that counts over them
    (900). A schema may hold noisy counts (80). Nothing that makes values is needed.
    """
    sizes = closure()
    print(*(f"{size:5} {name}" for name, size in sizes.items()), f"{sum(sizes.values()):5} in all", sep="\n")  # noqa: T201
    assert sum(sizes.values()) <= MAX_CLOSURE, sizes
    assert not {"schema/decode.py", "schema/draw.py"} & set(sizes)
    allowed = ("schema/", "sources/", "measurements.py", "errors.py", "guards.py", "notebook.py")
    assert [name for name in sizes if not name.startswith(allowed)] == []


@pytest.mark.parametrize("path", sorted(KERNEL.glob("*.py")), ids=lambda path: path.name)
def test_no_file_of_the_kernel_names_a_method(path: Path) -> None:
    text = path.read_text().lower()
    names = {spelled for name in methods() for spelled in (name, name.replace("-", "_"), name.replace("-", ""))}
    assert [name for name in names - COMMON_WORDS if re.search(rf"\b{re.escape(name)}\b", text)] == []


COMMON_WORDS = {"independent", "auto"}
"""Methods whose names are words of their own; such a name would have to be in quotation marks."""


@pytest.mark.parametrize("path", sorted(KERNEL.glob("*.py")), ids=lambda path: path.name)
def test_no_file_of_the_kernel_quotes_a_method(path: Path) -> None:
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    assert not {text for text in texts if isinstance(text, str)} & set(methods())
