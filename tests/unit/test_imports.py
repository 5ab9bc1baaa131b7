"""Heavy and optional libraries are imported where they are used, so that the package starts fast and installs small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lookalike

ROOT = Path(lookalike.__file__).parent
ONLY_WHERE_USED = {
    "pandas",
    "polars",
    "openpyxl",
    "pyreadstat",
    "sklearn",
    "numba",
    "torch",
    "uvicorn",
    "duckdb",
    "sqlglot",
    "psycopg",
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
    # Modules named numba_* are imported only once compiling pays, those of the page only by `lookalike serve`.
    assert [name for name in guilty if "/numba_" not in name and name != "web/app.py"] == []


def modules_with_one_importer() -> list[str]:
    """Modules that exactly one other module imports, at its top or inside a function."""
    modules = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for found in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & set(modules):
                    importers[found].add(name)
    return sorted(name for name, users in importers.items() if len(users) == 1)


def test_few_modules_serve_a_single_other_one() -> None:
    assert len(modules_with_one_importer()) < 30, modules_with_one_importer()


# Who may read rows. The contracts of .importlinter say it by module, this test by name; it holds for modules to come.

MAY_IMPORT = {
    "__init__.py": {"clusters.SparkTable", "databases.DatabaseTable"},
    "privacy/kernel/door.py": {"open.OpenedTable", "open.ReadTable", "open.read", "base", "frames.TableForm"},
    "evaluate/real_data.py": {"frames.read_table", "base.Place", "files.TableFile", "open.OpenedTable", "open.read",
                              "open.streamed_parts"},
    "evaluate/marginals.py": {"base.Source"},
    "public_table.py": {"base.Place", "frames.read_table"},
    "inputs.py": {"base.Place", "clusters", "databases", "frames.index_columns", "frames.is_spark_frame",
                  "frames.read_structure",
                  "files.PACKED", "files.STANDARD", "files.TableFile", "files.check_format", "files.kind_of_path"},
    "release.py": {"databases.write_into", "csvfiles.CsvStyle", "csvfiles.check_delimiter", "files.KINDS",
                   "writing.write_file", "writing.write_tables", "frames.TableForm", "frames.to_frame"},
}  # fmt: skip


def imported_sources(path: Path) -> set[str]:
    """What a module imports of `lookalike.sources`, anywhere in it, as 'module.name'; '*' for a whole module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {"*" for alias in node.names if alias.name.startswith("lookalike.sources")}
        elif isinstance(node, ast.ImportFrom):
            module = f"lookalike.{node.module or ''}" if node.level else node.module or ""
            if module.startswith("lookalike.sources."):
                inner = module.removeprefix("lookalike.sources.")
                found |= {f"{inner}.{alias.name}" for alias in node.names}
            elif module == "lookalike.sources" or any(alias.name == "sources" for alias in node.names):
                found.add("*")
    return found


def beyond(path: Path, name: str) -> set[str]:
    allowed = MAY_IMPORT.get(name, set())
    return {source for source in imported_sources(path) if not {source, source.split(".")[0]} & allowed}


def test_only_the_door_and_the_evaluation_import_what_reads_rows() -> None:
    modules = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    outside = {name: path for name, path in modules.items() if not name.startswith("sources/")}
    assert {name: beyond(path, name) for name, path in outside.items() if beyond(path, name)} == {}
    assert all(imported_sources(modules[name]) for name in MAY_IMPORT)


@pytest.mark.parametrize(
    "line",
    [
        "from lookalike.sources.open import read",
        "from lookalike.sources.frames import read_table",
        "from lookalike.sources import frames",
        "from lookalike import sources",
        "import lookalike.sources.open as m",
        "def late():\n    from lookalike.sources.csvfiles import read_csv",
    ],
)
def test_a_reader_elsewhere_is_noticed(tmp_path: Path, line: str) -> None:
    planted = tmp_path / "mst.py"
    planted.write_text(line + "\n")
    assert beyond(planted, "synthesizers/mst.py")
    assert beyond(planted, "pipeline.py")


def test_no_print_and_no_assert_in_the_package() -> None:
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.Assert), path
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            assert called != "print", path


def test_importing_the_package_loads_no_numeric_library() -> None:
    code = "import sys, lookalike; sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_mechanisms_and_door_have_no_seed_but_the_one_that_says_insecure() -> None:
    for name in ("mechanisms.py", "door.py"):
        text = (ROOT / "privacy" / "kernel" / name).read_text()
        # Which rows of a person are kept is drawn from the system's entropy.
        assert "default_rng" not in text.replace("default_rng(secrets.randbits(128))", "")
        assert "seed" not in text.replace("unseeded", "")
