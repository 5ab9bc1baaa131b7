"""The file of a model: a zip archive of one JSON document and one `.npy` per array, read under limits; CSV files.

A file may be hostile. Everything is checked before it is used, and the size of everything large is checked before
memory is allocated: the size of the archive's directory before it is read, arrays only of a few plain number types, and
a declared shape must fit the bytes in the archive exactly. No pickle, no code. Noisy tables are also written as CSV
files, for readers of any kind.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lookalike.errors import InputError, ModelFileError
from lookalike.guards import MAX_MODEL_MB
from lookalike.measurements import NoisyMarginal
from lookalike.models.bayes_net import BayesNet, PrefixHistogram
from lookalike.models.copula import GaussianCopula
from lookalike.models.dense import DenseModel
from lookalike.models.graphical import GraphicalModel
from lookalike.models.model import Model
from lookalike.models.network import NetworkModel
from lookalike.models.refine import RefinedModel
from lookalike.models.relaxed_rows import RelaxedRows
from lookalike.models.rows import GumRows, ReleasedRows, RowsModel
from lookalike.models.weighted_rows import ReweightedModel
from lookalike.schema.documents import Reader, write_whole
from lookalike.schema.schema import Schema
from lookalike.stored import Stored

DOCUMENT = "model.json"
INDEX = "tables.csv"
_MAX_DOCUMENT = 32 * 2**20
_MAX_VALUES = 2_000_000
_MAX_DIRECTORY = 4 * 2**20
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
_MEMBER = re.compile(r"[A-Za-z0-9_-]{1,100}\.npy")
_HEADER = re.compile(
    rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': (True|False), 'shape': \(((?:\d{1,15}, ?)*(?:\d{1,15})?)\), \} *\n"
)
_NAME = re.compile(r"[^\w-]+")
_END = struct.Struct("<4s4H2LH")
_CHUNK = 2**20


def write_archive(stream: BinaryIO, document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a document and its arrays."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DOCUMENT, json.dumps(document, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", buffer.getvalue())


def read_archive(path: str | Path, max_mb: float = MAX_MODEL_MB) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the arrays that `write_archive` wrote.

    Raises a ModelFileError for a file that is not such an archive or needs more than `max_mb` MiB of memory; other
    exceptions of the zip reader, such as those of a wrong checksum, are left to the caller.
    """
    max_bytes = int(max_mb * 2**20)
    with open(path, "rb") as stream:
        _check_directory(stream, max_bytes)
        with zipfile.ZipFile(stream) as archive:
            members = _members(archive)
            if DOCUMENT not in members:
                raise ModelFileError(f"it has no {DOCUMENT}")
            document = _document(archive, members.pop(DOCUMENT))
            arrays: dict[str, np.ndarray] = {}
            left = max_bytes
            for name, info in members.items():
                arrays[name.removesuffix(".npy")], used = _array(archive, info, left, max_mb)
                left -= used
    return document, arrays


def _check_directory(stream: BinaryIO, max_bytes: int) -> None:
    """Refuse an archive that is too large, or whose list of members is too large, before that list is read."""
    size = os.fstat(stream.fileno()).st_size
    if size > max_bytes + _MAX_DOCUMENT:
        raise _too_large(f"it has {size:,} bytes,", max_bytes / 2**20)
    stream.seek(max(0, size - _END.size - 20))
    tail = stream.read()
    if len(tail) < _END.size:
        raise ModelFileError("it is not a zip archive")
    mark, *_, directory, _, comment = _END.unpack(tail[-_END.size :])
    if mark != b"PK\5\6" or comment:
        raise ModelFileError("it is not a zip archive, or its end is missing")
    if directory > _MAX_DIRECTORY or tail[:4] == b"PK\6\7":
        raise ModelFileError(f"its list of members is larger than the limit of {_MAX_DIRECTORY:,} bytes")


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename != DOCUMENT and not _MEMBER.fullmatch(info.filename):
            raise ModelFileError(f"it holds {info.filename[:100]!r}, which is not part of a model")
        if info.filename in members:
            raise ModelFileError(f"it holds {info.filename} twice")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise ModelFileError(f"{info.filename} is encrypted, or compressed by another method than deflate")
        members[info.filename] = info
    return members


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    if info.file_size > _MAX_DOCUMENT:
        raise ModelFileError(f"{DOCUMENT} has {info.file_size:,} bytes; the limit is {_MAX_DOCUMENT:,}")
    reader = Reader(ModelFileError, max_values=_MAX_VALUES)
    document = reader.json(archive.read(info).decode("utf-8"), DOCUMENT)
    if not isinstance(document, dict):
        raise ModelFileError(f"{DOCUMENT} is not a JSON object")
    return document


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: int, max_mb: float) -> tuple[np.ndarray, int]:
    """One array and the memory that it counts for; its header is checked before memory is allocated."""
    with archive.open(info) as stream:
        start = stream.read(10)
        if len(start) < 10 or start[:8] != b"\x93NUMPY\x01\x00":
            raise ModelFileError(f"{info.filename} is not an array in NumPy's format 1.0")
        length = int.from_bytes(start[8:], "little")
        match = _HEADER.fullmatch(stream.read(length))
        if match is None or match[1].decode() not in _DTYPES:
            raise ModelFileError(f"{info.filename} is not an array of plain numbers")
        kind = np.dtype(match[1].decode())
        shape = tuple(int(size) for size in match[3].replace(b" ", b"").split(b",") if size)
        cells = math.prod(shape)
        if len(shape) > 32 or cells * kind.itemsize != info.file_size - 10 - length:
            raise ModelFileError(f"{info.filename} declares the shape {shape}, which does not fit its size")
        # Codes are stored in as few bytes as they need and take four bytes in memory.
        used = cells * max(4, kind.itemsize)
        if used > left:
            raise _too_large("its arrays need", max_mb)
        data = bytearray(cells * kind.itemsize)
        view, filled = memoryview(data), 0
        while chunk := stream.read(_CHUNK):
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
        if filled != len(data):
            raise ModelFileError(f"{info.filename} ends too early")
    array = np.frombuffer(data, dtype=kind)
    return array.reshape(shape, order="F" if match[2] == b"True" else "C"), used


def _too_large(what: str, max_mb: float) -> ModelFileError:
    return ModelFileError(
        f"{what} more than the limit of {max_mb:,.0f} MiB. If you trust the file, raise it: --max-model-mb on the "
        "command line, load(path, max_mb=...) in Python"
    )


_MODELS: list[type[Model]] = [DenseModel, GraphicalModel, BayesNet, RefinedModel, RowsModel, GumRows, ReleasedRows]
_MODELS += [PrefixHistogram, ReweightedModel, GaussianCopula, RelaxedRows, NetworkModel]
KINDS = {model.kind: model for model in _MODELS}


def stored_model(stored: Stored) -> Model:
    """Return the model of a model file."""
    kind = stored.text("kind")
    if kind not in KINDS:
        raise ModelFileError(f"its model is of kind {kind[:50]!r}; this version reads {', '.join(KINDS)}")
    return KINDS[kind].from_stored(stored)


def write_noisy_tables(folder: Path, schema: Schema, measurements: Sequence[NoisyMarginal]) -> list[Path]:
    """Write one CSV file per measurement and an index of all, and return their paths.

    Every file has a line per cell: the labels of its columns, the noisy number and its variance. Where cells were
    counted in groups, cells of one group share its number. Contrasts are without totals, so they may be negative.
    """
    if not measurements:
        raise InputError("The model holds no noisy tables: its method released none, or an older version stored it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        listed, paths = [], []
        for number, measured in enumerate(measurements, start=1):
            path = folder / f"{number:04d}-{_NAME.sub('_', '-'.join(measured.attrs))[:80] or 'total'}.csv"
            _write(path, (*measured.attrs, *_headings(measured)), _lines(schema, measured))
            kind = _headings(measured)[-2]
            listed.append((path.name, ", ".join(measured.attrs), kind, measured.cells, measured.stddev**2))
            paths.append(path)
        _write(folder / INDEX, ("file", "columns", "kind", "numbers", "variance"), listed)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}. Choose another place, or make room.") from None
    return [folder / INDEX, *paths]


def _headings(measured: NoisyMarginal) -> tuple[str, ...]:
    number = "contrast" if measured.contrasts is not None else "count"
    return ("group", f"{number} of group", "variance") if measured.groups is not None else (number, "variance")


def _lines(schema: Schema, measured: NoisyMarginal) -> Iterator[tuple[Any, ...]]:
    labels = [schema[name].labels() for name in measured.attrs]
    variance = measured.stddev**2
    for cell in np.ndindex(*(len(texts) for texts in labels)):
        place: Any = cell if measured.groups is None else int(measured.groups[cell])
        shown = () if measured.groups is None else (place,)
        texts = (texts[code] for texts, code in zip(labels, cell, strict=True))
        yield (*texts, *shown, float(measured.values[place]), variance)


def _write(path: Path, headings: Sequence[str], lines: Any) -> None:
    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(lines)
        text.detach()

    write_whole(path, write)
