"""Checks of the files that results are written to: writable, and neither an input nor another output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lookalike.errors import InputError
from lookalike.sources.files import STANDARD, kind_of_path


def check_target(path: Path, *, table: bool) -> None:
    """Refuse a file that cannot be written, before any budget is spent on its contents."""
    if table:
        kind_of_path(path)
        if path == STANDARD:
            return
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"Cannot write {path.name}: there is no folder {folder}. Create it, or choose another place.")
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"No permission to write to {folder}. Choose another place, or change its permissions.")


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that would overwrite an input or another output.

    Args:
        outputs: the path of each output by its name, such as "--model"; None if it is not written.
        inputs: the path of each input by its name, such as "the private table".
    """
    written: list[tuple[str, Path]] = []
    for what, path in outputs.items():
        if path is None or path == STANDARD:
            continue
        for name, other in inputs.items():
            if other is not None and same_file(path, other):
                raise InputError(f"{what} {path} is {name} and would overwrite it. Choose another place.")
        for name, other in written:
            if same_file(path, other):
                raise InputError(f"{what} {path} is also what {name} writes. Choose two places.")
        written.append((what, path))


def check_not_read(path: str | Path, inputs: Iterable[str]) -> None:
    """Refuse to overwrite the inputs or the ledger of a run."""
    check_apart({"The output": Path(path)}, {f"an input of the run ({name})": Path(name) for name in inputs})


def same_file(one: Path, two: Path) -> bool:
    """Return whether two paths are one file: by symbolic or hard link, or by another spelling."""
    try:
        return os.path.samefile(one, two)
    except OSError:
        # One of them does not exist yet: they are one file only if they will be created at the same place.
        return os.path.realpath(one) == os.path.realpath(two)


def with_side_files(ledger: Path | None) -> list[Path]:
    """Return the paths of a ledger, of its side files, and of what runs have left beside it."""
    if ledger is None:
        return []
    beside = [path for end in (".head", ".lock") for path in (ledger.with_suffix(end), Path(f"{ledger}{end}"))]
    return [ledger, *beside, *ledger.parent.glob(f"{ledger.name}-run*")]
