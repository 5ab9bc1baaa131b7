"""What a run returns: a synthetic table, the model that made it, and the account of what it cost.

A model file is a zip archive of `model.json` (format version, kind, schema, provenance) and one `.npy` per array. It is
loaded without pickle, so a file from a stranger runs no code, and its contents are checked: see `load`.
"""

from __future__ import annotations

import html
import re
from dataclasses import asdict, dataclass, field
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, LookalikeError, ModelFileError
from lookalike.guards import MAX_MODEL_MB
from lookalike.measurements.marginals import NoisyMarginal, NoisyResidual
from lookalike.models.answers import AnsweredQuestion, answer_question, rows_where
from lookalike.models.archive import read_archive, write_archive
from lookalike.models.diagnosis import Diagnosis, diagnose
from lookalike.models.intervals import ErrorBars
from lookalike.models.kinds import stored_model
from lookalike.models.model import Model
from lookalike.models.stored import MAX_COUNT, Stored, taken_apart
from lookalike.places import check_not_read
from lookalike.privacy.epsilon import epsilon_spent
from lookalike.privacy.kernel.accounting import (
    ACCOUNTINGS,
    LARGEST_EPSILON,
    NO_GUARANTEE,
    SMALLEST_EPSILON,
    Accounting,
    Budget,
    Charge,
)
from lookalike.schema import codec
from lookalike.schema.conditions import parse_question
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.sources.frames import CsvStyle, TableForm, to_frame, write_file, write_table
from lookalike.synthesizers.split import Step

FORMAT = 2
MAX_CELLS = 25_000_000
"""Cells of a sample from a loaded model for which the user gives no number of rows: the file may claim any number."""
_FORMS = ("csv", "parquet", "feather", "pandas", "polars", "arrow")
_RHO = re.compile(r"\d{1,50}(?:/[1-9]\d{0,49})?")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run was allowed to spend, and every charge it made. As public as the release.

    Attributes:
        threshold_delta: part of delta for noisy thresholds.
        private: False if the noise was reproducible (`insecure_rng`) or a step had none: then nothing is guaranteed.
    """

    method: str
    settings: dict[str, Any]
    epsilon: float
    delta: float
    accounting: Accounting
    neighbours: str
    charges: tuple[Charge, ...]
    private: bool = True
    threshold_delta: float = 0.0

    @property
    def rho(self) -> Fraction:
        return sum((charge.rho for charge in self.charges), Fraction(0))

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of all charges: at most the configured one, or infinite if a step had no guarantee."""
        if not self.charges:
            return 0.0
        if any(charge.mechanism == NO_GUARANTEE for charge in self.charges):
            return float("inf")
        return min(self.epsilon, epsilon_spent(self.rho, self.delta - self.threshold_delta, self.accounting))

    def by_step(self) -> dict[str, Fraction]:
        """Return the total rho of each step, in the order of first use."""
        totals: dict[str, Fraction] = {}
        for charge in self.charges:
            totals[charge.step] = totals.get(charge.step, Fraction(0)) + charge.rho
        return totals

    def to_json(self) -> dict[str, Any]:
        charges = [{**asdict(charge), "rho": str(charge.rho)} for charge in self.charges]
        return {**{name: getattr(self, name) for name in self.__slots__}, "charges": charges}

    @classmethod
    def from_stored(cls, stored: Stored) -> Spent:
        """Return the account that `to_json` wrote; refuse charges beyond the budget and false claims of privacy."""
        spent = cls(
            method=stored.text("method"),
            settings=stored.value("settings", dict),
            epsilon=stored.number("epsilon", SMALLEST_EPSILON, LARGEST_EPSILON),
            delta=stored.number("delta", 0.0, 1.0),
            accounting=stored.choice("accounting", ACCOUNTINGS),
            neighbours=stored.text("neighbours"),
            charges=tuple(_stored_charge(charge) for charge in stored.parts("charges")),
            private=stored.value("private", bool),
            threshold_delta=stored.number("threshold_delta", 0.0, 1.0, 0.0),
        )
        budget = Budget(spent.epsilon, spent.delta, spent.accounting, spent.threshold_delta)
        guaranteed = all(charge.mechanism != NO_GUARANTEE for charge in spent.charges)
        stored.require(not guaranteed or spent.rho <= budget.rho, "charges more than its budget")
        stored.require(guaranteed or not spent.private, "claims to be private but has a charge that is not")
        return spent

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(step)}</td><td>{float(rho):.6g}</td></tr>" for step, rho in self.by_step().items()
        )
        head = f"epsilon {self.epsilon_spent:.4g} of {self.epsilon:g}, delta {self.delta:g}, {self.neighbours}"
        return f"<table><caption>{html.escape(head)}</caption><tr><th>step</th><th>rho</th></tr>{rows}</table>"


def _stored_charge(stored: Stored) -> Charge:
    rho = stored.text("rho")
    stored.require(_RHO.fullmatch(rho) is not None, f"has {rho[:50]!r} as 'rho', where a fraction belongs")
    return Charge(
        step=stored.text("step"),
        mechanism=stored.text("mechanism"),
        releases=stored.whole("releases", 0, 2**53),
        rho=Fraction(rho),
        detail=stored.text("detail", ""),
        delta=stored.number("delta", 0.0, 1.0, 0.0),
    )


@dataclass(frozen=True, slots=True)
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
        """The noisy number of rows of the private table: how many are made by default."""
        return max(1, round(self.model.total))

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
        table = self.sample_arrow(rows, seed=seed, where=where)
        self.write_rows(table, path, escape_formulas=escape_formulas)
        return table.num_rows

    def write_rows(self, table: pa.Table, path: str | Path, *, escape_formulas: bool = False) -> None:
        """Write a table that this model made, in the form of the private one."""
        check_not_read(path, self.inputs)
        style = self.form.csv if self.form.kind == "csv" else None
        write_table(table, path, csv=style, escape_formulas=escape_formulas)

    def sample_arrow(self, rows: int | None = None, *, seed: int | None = None, where: str | None = None) -> pa.Table:
        """Return a synthetic table as an Arrow table; see `sample`."""
        check_rows(rows)
        self._check_cells(rows)
        rng = np.random.default_rng(seed)
        if where is None:
            codes = self.model.sample(self.rows if rows is None else rows, rng)
        else:
            codes = rows_where(self.model, parse_question(f"count where {where}", self.schema), rows, rng)
        return codec.decode(self.schema, codes, rng=rng)

    def _check_cells(self, rows: int | None) -> None:
        cells = self.rows * len(self.schema.columns)
        if rows is None and self.max_cells is not None and cells > self.max_cells:
            raise InputError(
                f"The model asks for {self.rows:,} rows of {len(self.schema.columns):,} columns; without a number of "
                f"rows the limit is {self.max_cells:,} cells. To make them, give --rows {self.rows} (rows={self.rows})."
            )

    def diagnosis(self) -> Diagnosis:
        """Return how well the model explains the noisy marginals of the run. Computed from released values: no cost."""
        return diagnose(self.model, self.measurements)

    def error_bars(self) -> ErrorBars:
        """Return intervals for counts, from the recorded noise alone."""
        return ErrorBars(self.schema.domain, self.measurements, self.residuals)

    def query(self, question: str, *, level: float = 0.9) -> AnsweredQuestion:
        """Return counts such as `count by sex where age >= 30`, with intervals for the true ones. Costs nothing."""
        return answer_question(question, self.schema, self.model, self.error_bars(), level)

    def report(self, published: pa.Table | None = None, *, title: str = "", issuer: str = "", contact: str = "") -> str:
        """Return the public report as one HTML page, made from released values only.

        `published` are synthetic rows of this model that are published with it: the report says how far they agree with
        its estimates. Title, issuer and contact are public texts for its head.
        """
        from lookalike.report.public import About, public_numbers, public_report

        about = About(title, issuer, contact, date.today().isoformat())
        codes = None if published is None else codec.encode_columns(self.schema.columns, published)
        rows = None if published is None else published.num_rows
        released = (self.schema, self.model, self.spent, self.error_bars())
        return public_report(public_numbers(*released, rows=rows, published=codes, about=about))

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

    def _repr_html_(self) -> str:
        title = f"{html.escape(self.spent.method)} model of {len(self.schema.domain)} columns, about {self.rows:,} rows"
        return f"<p><b>{title}</b></p>{self.spent._repr_html_()}"


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
    _check_writable(schema)
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


def _stored_residual(stored: Stored, domain: Domain) -> NoisyResidual:
    attrs = stored.clique("attrs", domain)
    reference = stored.table("reference", domain.shape(attrs), -MAX_COUNT, MAX_COUNT)
    return NoisyResidual(attrs, reference, stored.number("value", -MAX_COUNT, MAX_COUNT), stored.stddev())


def _stored_style(stored: Stored) -> CsvStyle:
    line_end = stored.choice("line_end", ("\n", "\r\n", "\r"))
    return CsvStyle(stored.choice("delimiter", (",", ";", "\t", "|")), line_end, stored.value("bom", bool))


def _check_writable(schema: Schema) -> None:
    """Decode rows with the lowest, middle and highest codes, so that a schema that cannot be decoded fails now."""
    sizes = np.array(schema.domain.sizes)
    codes = np.stack([0 * sizes, sizes // 2, sizes - 1]).astype(np.int32)
    with np.errstate(all="raise"):
        codec.decode(schema, np.asfortranarray(codes), rng=np.random.default_rng(0))


def check_rows(rows: int | None, max_rows: int | None = None) -> None:
    """Refuse a number of rows to make that is below 1, or above what the settings of the method allow."""
    if rows is not None and rows < 1:
        raise InputError(f"{rows} rows were asked for; ask for at least 1.")
    if rows is not None and max_rows is not None and rows > max_rows:
        raise InputError(f"{rows:,} rows were asked for, but these settings make {max_rows:,}; set seeded_rows={rows}.")


def write_page(path: Path, page: str) -> None:
    """Write a page or another text to a file, completely or not at all."""
    write_file(path, lambda stream: stream.write(page.encode()))


@dataclass(frozen=True, slots=True)
class Release:
    """A synthetic table, ready to be published, with its model and its account.

    Attributes:
        rows: the synthetic rows as an Arrow table.
        fitted: the model that made it, for more rows, queries and storage.
        plan: what each step of the run was allowed to spend.
        notes: warnings about the fit; empty if the model explains what was measured.
    """

    rows: pa.Table
    fitted: FittedModel
    plan: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Any:
        """The synthetic rows in the same type of frame as the private ones; an Arrow table for files."""
        return to_frame(self.rows, self.fitted.form)

    def write(self, path: str | Path, *, escape_formulas: bool = False) -> None:
        """Write the rows to a file, in the format of its suffix; see `FittedModel.write`."""
        self.fitted.write_rows(self.rows, path, escape_formulas=escape_formulas)

    def report(self, *, title: str = "", issuer: str = "", contact: str = "") -> str:
        """Return the public report as one HTML page, made from released values only; see `FittedModel.report`."""
        return self.fitted.report(self.rows, title=title, issuer=issuer, contact=contact)

    @property
    def model(self) -> Model:
        return self.fitted.model

    @property
    def spent(self) -> Spent:
        return self.fitted.spent

    @property
    def schema(self) -> Schema:
        return self.fitted.schema

    def _repr_html_(self) -> str:
        return self.fitted._repr_html_() + "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
