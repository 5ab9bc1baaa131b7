"""What a run returns: a synthetic table, the model that made it, and the account of what it cost.

A model file is a zip archive of `model.json` (format version, kind, schema, provenance) and one `.npy` per array. It is
loaded without pickle, so a file from a stranger runs no code, and its contents are checked: see `load`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, LookalikeError, ModelFileError
from lookalike.guards import MAX_MODEL_MB
from lookalike.inputs import check_not_read
from lookalike.measurements import NoisyMarginal, NoisyResidual, total_stddev
from lookalike.models.answers import AnsweredQuestion, answer_question, table_where
from lookalike.models.archive import read_archive, stored_model, write_archive, write_noisy_tables
from lookalike.models.intervals import ErrorBars
from lookalike.models.model import Diagnosis, Model, RowParts, diagnose
from lookalike.models.redraws import redrawn
from lookalike.notebook import card, table
from lookalike.privacy.run import Spent
from lookalike.schema import codec
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.decode import check_decodable
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import Unseen, by_reason, unseen_text
from lookalike.sources.csvfiles import CsvStyle, check_delimiter
from lookalike.sources.databases import write_into
from lookalike.sources.files import KINDS
from lookalike.sources.frames import TableForm, to_frame
from lookalike.sources.writing import write_file, write_tables
from lookalike.stored import MAX_COUNT, Stored, taken_apart
from lookalike.synthesizers.split import Step

FORMAT = 2
CHUNK_ROWS = 1_000_000
"""Rows that are made at a time."""
MAX_CELLS = 25_000_000
"""Cells of a sample from a loaded model for which the user gives no number of rows: the file may claim any number."""
_FORMS = (*KINDS, "pandas", "polars", "arrow", "database")


@dataclass(frozen=True, slots=True, repr=False)
class FittedModel:
    """A model with the schema that decodes its rows: sampling needs no data and no budget.

    Attributes:
        measurements: the noisy marginals of the run, from which error bars are computed.
        residuals: noisy distances of marginals from public references; they narrow bounds on marginals not measured.
        max_cells: maximum number of cells (rows times columns) of a sample without a number of rows; None for any.
        inputs: files that the run read, and its ledger: none of them is overwritten.
    """

    schema: Schema
    model: Model
    spent: Spent
    form: TableForm
    measurements: tuple[NoisyMarginal, ...] = ()
    residuals: tuple[NoisyResidual, ...] = ()
    max_cells: int | None = None
    inputs: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Default number of rows to make: the noisy number of rows, at least its noise, at most the model's maximum."""
        most = getattr(self.model, "max_rows", math.inf)
        return max(1, round(min(most, max(self.model.total, total_stddev(self.measurements)))))

    def sample(self, rows: int | None = None, *, seed: int | None = None, where: str | None = None) -> Any:
        """Return a synthetic table of the same frame type, columns and formats as the private one.

        `where` is a condition such as "age >= 65 and sex = F": rows are then drawn given that condition, by default as
        many as the model expects in the private table.
        """
        return to_frame(self.sample_arrow(rows, seed=seed, where=where), self.form)

    def write(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        seed: int | None = None,
        where: str | None = None,
        escape_formulas: bool = False,
    ) -> int:
        """Write a synthetic table to a file, in the format of its suffix, and return the number of rows.

        With `escape_formulas`, texts of a CSV file that a spreadsheet would run as formulas start with an apostrophe.
        """
        given = None if where is None else self.sample_arrow(rows, seed=seed, where=where)
        tables = self.batches(rows, seed=seed) if given is None else iter([given])
        self.write_rows(tables, path, escape_formulas=escape_formulas)
        return given.num_rows if given is not None else self.rows if rows is None else rows

    def write_into(
        self, database: Any, name: str, rows: int | None = None, *, seed: int | None = None, where: str | None = None
    ) -> int:
        """Write a synthetic table into a new table of a database or of Spark, and return the number of rows.

        `database` is a URL, a SQLAlchemy engine, a DBAPI connection, or an address or a session of Spark: its executors
        make the rows. A table that exists already is refused.
        """
        given = None if where is None else self.sample_arrow(rows, seed=seed, where=where)
        parts = self.parts(rows, seed=seed) if given is None else [given]
        write_into(parts, database, name)
        return given.num_rows if given is not None else self.rows if rows is None else rows

    def write_rows(self, tables: Iterable[pa.Table], path: str | Path, *, escape_formulas: bool = False) -> None:
        """Write tables that this model made as a single one, in the form of the private table."""
        check_not_read(path, self.inputs)
        style = self.form.csv if self.form.kind == "csv" else None
        numbers = [c.name for c in self.schema.columns if c.field_type in ("integer", "number") or _is_flag(c)]
        times = [c.name for c in self.schema.columns if c.field_type in ("date", "datetime")]
        write_tables(tables, path, csv=style, escape_formulas=escape_formulas, numbers=numbers, times=times)

    def batches(
        self, rows: int | None = None, chunk: int = CHUNK_ROWS, *, seed: int | None = None
    ) -> Iterator[pa.Table]:
        """Return a synthetic table in parts of at most `chunk` rows, so that it need not fit into memory.

        The same seed, number of rows and chunk give the same rows, whatever the number of threads. Where one part is
        enough, it is the table of `sample`.
        """
        return iter(self.parts(rows, chunk, seed=seed))

    def parts(self, rows: int | None = None, chunk: int = CHUNK_ROWS, *, seed: int | None = None) -> RowParts:
        """Return the tables of `batches` as parts that can be made one by one, in any order and on any machine."""
        check_rows(rows)
        check_rows(chunk)
        self._check_cells(rows)
        wanted = self.rows if rows is None else rows
        return RowParts(self.model, self.schema, wanted, chunk, np.random.SeedSequence(seed))

    def sample_arrow(self, rows: int | None = None, *, seed: int | None = None, where: str | None = None) -> pa.Table:
        """Return a synthetic table as an Arrow table; see `sample`."""
        check_rows(rows)
        self._check_cells(rows)
        if where is not None:
            return table_where(self.model, self.schema, where, rows, np.random.default_rng(seed))
        return pa.concat_tables(self.batches(rows, seed=seed))

    def _check_cells(self, rows: int | None) -> None:
        cells = self.rows * len(self.schema.columns)
        if rows is None and self.max_cells is not None and cells > self.max_cells:
            raise InputError(
                f"The model asks for {self.rows:,} rows of {len(self.schema.columns):,} columns; without a number of "
                f"rows the limit is {self.max_cells:,} cells. To make them, give --rows {self.rows} (rows={self.rows})."
            )

    def draws(self, number: int, *, seed: int | None = None) -> Iterator[FittedModel]:
        """Yield draws of the model that differ by the run's noise; `combine` takes a table of each. Costs nothing."""
        for child in np.random.SeedSequence(seed).spawn(number):
            model = redrawn(self.model, self.measurements, np.random.default_rng(child))
            yield replace(self, model=model)

    def diagnosis(self) -> Diagnosis:
        """Return how well the model explains the noisy marginals of the run. Computed from released values: no cost."""
        return diagnose(self.model, self.measurements)

    def error_bars(self) -> ErrorBars:
        """Return intervals for counts, from the recorded noise alone."""
        return ErrorBars(self.schema.domain, self.measurements, self.residuals)

    def query(self, question: str, *, level: float = 0.9) -> AnsweredQuestion:
        """Return counts such as `count by sex where age >= 30`, with intervals for the true ones. Costs nothing."""
        return answer_question(question, self.schema, self.model, self.error_bars(), level)

    def report(
        self,
        published: pa.Table | None = None,
        *,
        rows: int | None = None,
        title: str = "",
        issuer: str = "",
        contact: str = "",
    ) -> str:
        """Return the public report as one HTML page, made from released values only.

        `published` are the synthetic rows that are published with it, or the first of them, if there are `rows` in all.
        The report says how closely they agree with its estimates. Title, issuer and contact are public texts
        for its head.
        """
        from lookalike.report.public import About, public_numbers, public_report

        about = About(title, issuer, contact, date.today().isoformat())
        codes = None if published is None else codec.encode_columns(self.schema.columns, published)
        rows = rows if published is None or rows is not None else published.num_rows
        released = (self.schema, self.model, self.spent, self.error_bars())
        return public_report(public_numbers(*released, rows=rows, published=codes, about=about))

    def write_noisy_tables(self, folder: str | Path) -> list[Path]:
        """Write the noisy tables of the run as CSV files with their variances, and return the paths; an index first."""
        return write_noisy_tables(Path(folder), self.schema, self.measurements)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, completely or not at all."""
        check_not_read(path, self.inputs)
        parts = {
            "format": FORMAT,
            "schema": self.schema.to_dict(),
            "spent": self.spent,
            "form": {"kind": self.form.kind, "csv": self.form.csv},
            "model": self.model,
            "measurements": self.measurements,
            "residuals": self.residuals,
        }
        document, arrays = taken_apart(parts)
        write_file(Path(path), lambda stream: write_archive(stream, document, arrays))

    def __repr__(self) -> str:
        columns = len(self.schema.columns)
        return f"FittedModel({self.spent.method_text}; {columns} columns, about {self.rows:,} rows; {self.spent!r})"

    def _repr_html_(self) -> str:
        title = f"Model of {len(self.schema.columns)} columns, about {self.rows:,} rows"
        sets = [(", ".join(m.attrs), m.cells, f"{m.stddev:.4g}") for m in self.measurements]
        noisy = table(("columns", "numbers", "stddev of the noise"), sets, summary=f"{len(sets)} noisy tables")
        use = "sample(rows) makes rows, query(...) answers with error bars, save(path) stores it: all for free."
        return card(title, [use], noisy) + self.spent._repr_html_()


def load(path: str | Path, *, max_mb: float = MAX_MODEL_MB) -> FittedModel:
    """Return the model stored by `FittedModel.save`. The file may come from a stranger: its contents are checked.

    Args:
        path: the model file.
        max_mb: maximum memory, in MiB, that its arrays may take.

    Raises:
        ModelFileError: there is no such file, it is damaged or no model, or it is larger than allowed.
    """
    try:
        document, arrays = read_archive(path, max_mb)
        return _fitted(Stored(document, arrays, "the file"))
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {path}.") from None
    except OSError as error:
        raise ModelFileError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from None
    except LookalikeError as error:
        reason = str(error).rstrip(".")
    except Exception as error:  # noqa: BLE001
        # Errors of libraries with a damaged file: a wrong checksum, an impossible time, too deep a stack.
        reason = type(error).__name__
    raise ModelFileError(
        f"{path} is not a lookalike model or is damaged: {reason}. Make it again with "
        "'lookalike synth ... --model FILE'."
    )


def _fitted(stored: Stored) -> FittedModel:
    if stored.meta.get("format") != FORMAT:
        raise ModelFileError(
            f"it has model format {str(stored.meta.get('format'))[:20]!r}; this version reads format {FORMAT}. Use the "
            "version of lookalike that wrote it"
        )
    schema = Schema.from_dict(stored.value("schema", dict))
    domain = schema.domain
    model = stored_model(stored.part("model", "its model"))
    stored.require(model.domain == domain, "has a model whose columns are not those of its schema")
    check_decodable(schema)
    form = stored.part("form")
    return FittedModel(
        schema=schema,
        model=model,
        spent=Spent.from_stored(stored.part("spent")),
        form=TableForm(form.choice("kind", _FORMS), _stored_style(form.part("csv"))),
        measurements=tuple(entry.measurement(domain) for entry in stored.parts("measurements")),
        residuals=tuple(_stored_residual(entry, domain) for entry in stored.parts("residuals")),
        max_cells=MAX_CELLS,
    )


def _is_flag(column: Column) -> bool:
    return isinstance(column, Categorical) and set(column.values or ("",)) <= {"true", "false"}


def _stored_residual(stored: Stored, domain: Domain) -> NoisyResidual:
    attrs = stored.clique("attrs", domain)
    reference = stored.table("reference", domain.shape(attrs), -MAX_COUNT, MAX_COUNT)
    return NoisyResidual(attrs, reference, stored.number("value", -MAX_COUNT, MAX_COUNT), stored.stddev())


def _stored_style(stored: Stored) -> CsvStyle:
    delimiter, line_end = stored.text("delimiter"), stored.choice("line_end", ("\n", "\r\n", "\r"))
    check_delimiter(delimiter)
    return CsvStyle(delimiter, line_end, stored.value("bom", bool))


def check_rows(rows: int | None) -> None:
    """Refuse a number of rows to make that is not a whole number of at least 1."""
    if rows is not None and (not isinstance(rows, int | np.integer) or rows < 1):
        raise InputError(f"{rows!r} rows were asked for; ask for a whole number, at least 1.")


def write_page(path: Path, page: str) -> None:
    """Write a page or another text to a file, completely or not at all."""
    write_file(path, lambda stream: stream.write(page.encode()))


@dataclass(frozen=True, slots=True, repr=False)
class Release:
    """A synthetic table, ready to be published, with its model and its account.

    Attributes:
        first: the synthetic rows as an Arrow table; only the first CHUNK_ROWS where there are more.
        fitted: the model that made it, for more rows, queries and storage.
        plan: what each step of the run was allowed to spend.
        notes: sentences for people: what could not be seen, which rules were found, where the model does not fit.
        unseen: for columns that were not seen clearly, what was seen, what was done instead, and what to declare.
        making: the number of rows and the seed that makes them, where `first` does not hold them all.
    """

    first: pa.Table
    fitted: FittedModel
    plan: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    making: tuple[int, int] | None = None

    @property
    def number_of_rows(self) -> int:
        return self.first.num_rows if self.making is None else self.making[0]

    @property
    def rows(self) -> pa.Table:
        """The synthetic rows as an Arrow table. More than CHUNK_ROWS are made when they are asked for."""
        return pa.concat_tables(self._tables())

    def _tables(self) -> RowParts | list[pa.Table]:
        if self.making is None:
            return [self.first]
        number, seed = self.making
        return self.fitted.parts(number, seed=seed)

    @property
    def not_seen(self) -> dict[str, tuple[str, ...]]:
        """The columns for which something could not be seen, by reason."""
        return by_reason(self.unseen)

    @property
    def table(self) -> Any:
        """The synthetic rows in the same type of frame as the private ones; an Arrow table for files."""
        return to_frame(self.rows, self.fitted.form)

    def write_into(self, database: Any, name: str) -> None:
        """Write the rows into a new table of a database or of Spark, completely or not at all."""
        write_into(self._tables(), database, name)

    def write(self, path: str | Path, *, escape_formulas: bool = False) -> None:
        """Write the rows to a file, in the format of its suffix; see `FittedModel.write`."""
        self.fitted.write_rows(self._tables(), path, escape_formulas=escape_formulas)

    def report(self, *, title: str = "", issuer: str = "", contact: str = "") -> str:
        """Return the public report as one HTML page, made from released values only; see `FittedModel.report`."""
        about = {"title": title, "issuer": issuer, "contact": contact}
        return self.fitted.report(self.first, rows=self.number_of_rows, **about)

    @property
    def model(self) -> Model:
        return self.fitted.model

    @property
    def spent(self) -> Spent:
        return self.fitted.spent

    @property
    def schema(self) -> Schema:
        return self.fitted.schema

    def __repr__(self) -> str:
        return "\n".join(("Release", *(f"  {line}" for line in self._lines())))

    def _lines(self) -> list[str]:
        return [
            f"Rows: {self.number_of_rows:,} of {len(self.schema.columns)} columns, all made up",
            f"Method: {self.spent.method_text}",
            f"Spent: {self.spent.price_text}",
            f"Not seen: {unseen_text(self.unseen, self.schema)}",
        ]

    def _repr_html_(self) -> str:
        head = self.first.slice(0, 5)
        first = table(head.column_names, ([_shown(value) for value in row.values()] for row in head.to_pylist()))
        further = [note for note in self.notes if not note.startswith("Not seen: ")]  # these are among the lines
        return card("Release", [*self._lines(), *further], first) + self.fitted._repr_html_()


def _shown(value: object) -> str:
    """Return a value of a row as text, numbers with six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
