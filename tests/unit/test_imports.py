"""Heavy and optional libraries are imported where they are used, so that the package starts fast and installs small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import lookalike

ROOT = Path(lookalike.__file__).parent
ONLY_WHERE_USED = {
    "pandas",
    "polars",
    "sklearn",
    "numba",
    "torch",
    "duckdb",
    "pyspark",
    "opendp",
    "dp_accounting",
    "mbi",
}


def top_level_imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_optional_libraries_are_imported_inside_functions() -> None:
    guilty = {
        str(path.relative_to(ROOT)): names
        for path in ROOT.rglob("*.py")
        if (names := top_level_imports(path) & ONLY_WHERE_USED)
    }
    # Modules named numba_* are themselves imported only once compiling pays.
    assert [name for name in guilty if "/numba_" not in name] == []


def test_no_print_and_no_assert_in_the_package() -> None:
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.Assert), path
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            assert called != "print", path


def test_importing_the_package_loads_no_numeric_library() -> None:
    code = "import sys, lookalike; sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_noise_and_choice_have_no_seed_but_the_one_that_says_insecure() -> None:
    for name in ("noise.py", "choice.py", "door.py"):
        text = (ROOT / "privacy" / name).read_text()
        assert "default_rng" not in text
        assert "seed" not in text.replace("unseeded", "")
