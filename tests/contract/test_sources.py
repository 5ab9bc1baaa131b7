"""What every source must do: one test body, run over all of them.

The first part asks a source of codes, the second every engine that holds the rows of a table: to add an engine, add a
function to ENGINES that puts an Arrow table there and returns its scanner.
"""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from lookalike.errors import SchemaError
from lookalike.privacy.kernel.door import kept_rows
from lookalike.schema.binned import Continuous, Integer
from lookalike.schema.codec import encode_columns
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.domain import Domain
from lookalike.schema.probes import Comparison, GridProbe, RowsPerPerson
from lookalike.schema.schema import Schema
from lookalike.sources.base import Scanner, View
from lookalike.sources.counting import CountedSource
from lookalike.sources.databases import DatabaseTable
from lookalike.sources.files import TableFile
from lookalike.sources.frames import TableForm, read_structure
from lookalike.sources.open import MemorySource, MemoryTable
from lookalike.sources.streams import FileTable
from tests.databases import DATABASES
from tests.spark import in_spark

DOMAIN = Domain.of({"a": 3, "b": 1, "c": 4, "d": 7})


@pytest.fixture(params=[0, 1, 500], ids=lambda rows: f"{rows} rows")
def codes(request):
    rng = np.random.default_rng(5)
    return np.column_stack([rng.integers(0, size, request.param) for size in DOMAIN.sizes]).astype(np.int32)


@pytest.fixture
def source(codes):
    return MemorySource(DOMAIN, codes)


def brute_force(codes, domain, clique):
    table = np.zeros(domain.shape(clique), dtype=np.int64)
    for row in codes:
        table[tuple(row[domain.position(name)] for name in clique)] += 1
    return table


def test_counts_of_all_cliques(source, codes):
    cliques = [c for k in range(len(DOMAIN) + 1) for c in itertools.combinations(DOMAIN.names, k)]
    for clique, table in zip(cliques, source.counts(cliques), strict=True):
        assert table.dtype == np.int64
        assert np.array_equal(table, brute_force(codes, DOMAIN, clique)), clique


def test_no_cliques(source):
    assert source.counts([]) == []


def test_the_same_clique_twice_gives_independent_arrays(source):
    one, two = source.counts([("a",), ("a",)])
    one += 1
    assert not np.array_equal(one, two)
    assert np.array_equal(source.counts([("a",)])[0], two)


def test_recoded_counts_are_merged_counts(source, codes):
    maps = {"c": np.array([0, 1, 1, 0]), "d": np.array([2, 2, 1, 0, 0, 0, 1])}
    merged = source.recoded(maps)
    assert merged.domain.sizes == (3, 1, 2, 3)
    recoded = codes.copy()
    recoded[:, 2], recoded[:, 3] = maps["c"][codes[:, 2]], maps["d"][codes[:, 3]]
    assert np.array_equal(merged.counts([("c", "d")])[0], brute_force(recoded, merged.domain, ("c", "d")))
    assert source.domain == DOMAIN


@pytest.mark.parametrize("codes_of_c", [[0, 1, 2], [0, 1, 2, 4], [0, 1, -1, 2]])
def test_bad_maps_are_refused(source, codes_of_c):
    with pytest.raises(SchemaError, match="map of column 'c'"):
        source.recoded({"c": np.array(codes_of_c)})


def test_cliques_must_be_canonical_and_known(source):
    with pytest.raises(SchemaError, match="order of the domain"):
        source.counts([("c", "a")])
    with pytest.raises(SchemaError, match="No column 'z'"):
        source.counts([("z",)])


# Engines.

Engine = Callable[[pa.Table, Path], Scanner]


def in_memory(table: pa.Table, folder: Path) -> Scanner:
    return MemoryTable(table, TableForm("arrow"))


def file_table(*files: Path) -> Scanner:
    """The files as the engine of tables larger than memory, though they are small."""
    place = TableFile(files[0] if len(files) == 1 else files[0].parent)
    return FileTable(place.parts(), read_structure(place), TableForm(place.kind))


def in_parquet(table: pa.Table, folder: Path) -> Scanner:
    for i, start in enumerate(range(0, max(table.num_rows, 1), 1100)):
        parquet.write_table(table.slice(start, 1100), folder / f"part-{i}.parquet", row_group_size=300)
    return file_table(*sorted(folder.glob("*.parquet")))


def in_feather(table: pa.Table, folder: Path) -> Scanner:
    feather.write_feather(table, str(folder / "table.feather"), chunksize=300)
    return file_table(folder / "table.feather")


def in_database(put: Callable[[pa.Table, Path], DatabaseTable]) -> Engine:
    return lambda table, folder: put(table, folder).scanner()


ENGINES: dict[str, Engine] = {
    "memory": in_memory,
    "parquet": in_parquet,
    "feather": in_feather,
    **{name: in_database(put) for name, put in DATABASES.items()},
    "spark": lambda table, folder: in_spark(table).scanner(),
}

TEXTS = ["x", "y", "Y", "y ", " y", "", "NA", None, "é", "ß", "x\ty", "'; --", "%", "\\"]
NUMBERS = [0.0, -0.0, 0.1 + 0.2, 0.3, 1.0, 1e300, -1e300, float("nan"), None, float("inf"), float("-inf"), 2.5, 5.0]
WHOLE = [0, 1, 2, 3, 99, -5, 700, None, 2**62, -(2**62), 299]
COLUMNS: tuple[Column, ...] = (
    Categorical("text", missing=("", "NA"), values=("x", "y", "é"), outside="other"),
    Continuous("number", missing=("",), minimum=0.0, maximum=5.0, bins=7),
    Integer("whole", missing=("",), minimum=0, maximum=299, bins=300),
    Identifier("who", missing=("", "NA")),
)


def rows_of(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    drawn = {
        "text": pa.array([TEXTS[i] for i in rng.integers(0, len(TEXTS), number)], pa.string()),
        "number": pa.array([NUMBERS[i] for i in rng.integers(0, len(NUMBERS), number)], pa.float64()),
        "whole": pa.array([WHOLE[i] for i in rng.integers(0, len(WHOLE), number)], pa.int64()),
        "who": pa.array([[None, "NA", "p", "q", "r"][i] for i in rng.integers(0, 5, number)], pa.string()),
    }
    return pa.table(drawn)


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.xdist_group(name)]) for name in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.fixture(params=[0, 1, 2000], ids=lambda rows: f"{rows} rows")
def table(request: pytest.FixtureRequest) -> pa.Table:
    return rows_of(request.param)


def expected(columns: tuple[Column, ...], table: pa.Table, cliques: Any) -> list[np.ndarray]:
    return MemorySource(View.of(columns).domain, encode_columns(columns, table)).counts(cliques)


def all_sets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [clique for k in range(4) for clique in itertools.combinations(names, k)]


def test_every_engine_counts_as_the_codec_encodes(engine: Engine, table: pa.Table, tmp_path: Path) -> None:
    scanner = engine(table, tmp_path)
    assert scanner.structure.names == table.schema.names
    source = CountedSource(scanner, View.of(COLUMNS))
    cliques = all_sets(source.domain.names)
    for clique, found, wanted in zip(cliques, source.counts(cliques), expected(COLUMNS, table, cliques), strict=True):
        assert found.dtype == np.int64
        assert np.array_equal(found, wanted), clique
    assert source.passes == 1
    source.counts(cliques)
    assert source.passes == 1
    scanner.close()


def test_every_engine_counts_recoded_columns(engine: Engine, table: pa.Table, tmp_path: Path) -> None:
    scanner = engine(table, tmp_path)
    view = View.of(COLUMNS)
    maps = {"whole": np.arange(view.domain.size("whole")) % 3, "text": np.minimum(np.arange(6), 1)}
    coarse = CountedSource(scanner, view).recoded(maps)
    direct = MemorySource(view.domain, encode_columns(COLUMNS, table)).recoded(maps)
    cliques = all_sets(coarse.domain.names)
    for clique, found, wanted in zip(cliques, coarse.counts(cliques), direct.counts(cliques), strict=True):
        assert np.array_equal(found, wanted), clique
    for found, wanted in zip(scanner.scan(view.recoded(maps), cliques), direct.counts(cliques), strict=True):
        assert np.array_equal(found, wanted)


def test_every_engine_counts_distinct_texts(engine: Engine, table: pa.Table, tmp_path: Path) -> None:
    scanner = engine(table, tmp_path)
    for name in ("text", "who"):
        texts, counts = scanner.value_counts(name)
        found = Counter(dict(zip(texts, counts.tolist(), strict=True)))
        held = Counter(text for text in table.column(name).to_pylist() if text not in (None, "", "NA"))
        assert found == known(scanner, held)


def known(scanner: Scanner, counts: dict[str, int]) -> dict[str, int]:
    """The counts that an engine lists: a server keeps those of few rows to itself."""
    return {text: count for text, count in counts.items() if count >= getattr(scanner, "least_count", 1)}


def probes(persons: Identifier) -> tuple[Column, ...]:
    """Columns of classes, by which discovery asks about values and rows."""
    whole, number = COLUMNS[2], COLUMNS[1]
    return (
        GridProbe("whole", base=whole, edges=np.array([0.0, 50.0, 100.0])),  # type: ignore[arg-type]
        RowsPerPerson("who", base=persons),
        Comparison("row", schema=Schema((whole, number))),
    )


def test_every_engine_counts_probes_of_discovery(engine: Engine, table: pa.Table, tmp_path: Path) -> None:
    persons = replace(COLUMNS[3], person=True, max_rows=3)  # type: ignore[call-arg]
    asked = probes(persons)  # type: ignore[arg-type]
    source = CountedSource(engine(table, tmp_path), View.of(asked))
    cliques = all_sets(source.domain.names)
    for clique, found, wanted in zip(cliques, source.counts(cliques), expected(asked, table, cliques), strict=True):
        assert np.array_equal(found, wanted), clique


def test_every_engine_caps_persons_once(engine: Engine, tmp_path: Path) -> None:
    people = [None, "NA", "", *["p"] * 5, *["q"] * 2, "r"]
    table = pa.table({"row": pa.array(range(len(people)), pa.int64()), "who": pa.array(people, pa.string())})
    person = Identifier("who", missing=("", "NA"), person=True, max_rows=2, repeats=(0.5, 0.5))
    columns = (Integer.coded("row", len(people)), person)
    capped = engine(table, tmp_path).capped(person, kept_rows)
    source = CountedSource(capped, View.of(columns))
    rows = np.flatnonzero(source.counts([("row",)])[0])
    assert Counter(people[i] for i in rows) == {None: 1, "NA": 1, "": 1, "p": 2, "q": 2, "r": 1}
    again = CountedSource(capped, View.of(columns)).counts([("row",)])[0]
    assert np.flatnonzero(again).tolist() == rows.tolist()
    repeats = CountedSource(capped, View.of((RowsPerPerson("who", base=person),))).counts([("who",)])[0]
    assert repeats.tolist() == [4, 4]
    texts, counts = capped.value_counts("who")
    assert dict(zip(texts, counts.tolist(), strict=True)) == known(capped, {"p": 2, "q": 2, "r": 1})


def test_which_rows_are_kept_is_random(engine: Engine, tmp_path: Path) -> None:
    people = np.repeat(np.arange(60), 3)
    table = pa.table({"row": pa.array(range(180), pa.int64()), "who": pa.array([f"p{i}" for i in people], pa.string())})
    person, columns = Identifier("who", person=True, max_rows=1, repeats=(1.0,)), (Integer.coded("row", 180),)
    scanner = engine(table, tmp_path)
    one, two = (
        CountedSource(scanner.capped(person, kept_rows), View.of(columns)).counts([("row",)])[0].reshape(60, 3)
        for _ in range(2)
    )
    assert (one.sum(axis=1) == 1).all()
    assert (one.sum(axis=0) > 2).all()  # each fails by chance once in a hundred million tests
    assert not np.array_equal(one, two)


def test_no_engine_shows_or_pickles_rows(engine: Engine, tmp_path: Path) -> None:
    scanner = engine(pa.table({"text": ["secret"] * 3}), tmp_path)
    source = CountedSource(scanner, View.of((Categorical("text", values=("secret",), outside="other"),)))
    source.counts([("text",)])
    assert "secret" not in repr(scanner) + repr(source)
    for held in (scanner, source):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(held)
