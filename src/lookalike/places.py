"""Where results go: to places that can be written to, and never over what a run reads or over each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lookalike.errors import InputError
from lookalike.sources.frames import kind_of_path


def check_target(path: Path, *, table: bool) -> None:
    """Refuse a place that cannot be written to, before any budget is spent on what should go there."""
    if table:
        kind_of_path(path)
    folder = path.parent
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder} to write {path.name} to. Make it first, or choose another place."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"No permission to write to {folder}. Choose another place, or change its permissions.")


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that would overwrite an input or another output.

    Args:
        outputs: what each output is, such as "--model", and its path, None where it is not written.
        inputs: what each input is, such as "the private table", and its path.
    """
    written: list[tuple[str, Path]] = []
    for what, path in outputs.items():
        if path is None:
            continue
        for name, other in inputs.items():
            if other is not None and same_file(path, other):
                raise InputError(f"{what} {path} is {name} and would overwrite it. Choose another place.")
        for name, other in written:
            if same_file(path, other):
                raise InputError(f"{what} {path} is also what {name} writes. Choose two places.")
        written.append((what, path))


def check_not_read(path: str | Path, inputs: Iterable[str]) -> None:
    """Refuse to write over what a run has read or keeps its account in."""
    check_apart({"The output": Path(path)}, {f"an input of the run ({name})": Path(name) for name in inputs})


def same_file(one: Path, two: Path) -> bool:
    """Whether two paths are one file: by symbolic or hard link, or by another spelling."""
    try:
        return os.path.samefile(one, two)
    except OSError:
        # One of them is not there yet: then they are one file only if they will be made at the same place.
        return os.path.realpath(one) == os.path.realpath(two)


def with_side_files(ledger: Path | None) -> list[Path]:
    """A ledger and the files that are kept beside it."""
    if ledger is None:
        return []
    beside = [path for end in (".head", ".lock") for path in (ledger.with_suffix(end), Path(f"{ledger}{end}"))]
    return [ledger, *beside]
