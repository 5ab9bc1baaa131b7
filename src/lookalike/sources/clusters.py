"""The place of a table of Spark: a DataFrame, or a session or an address with the name of a table or a path.

`repr` shows that it is a table of Spark and its name alone.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from lookalike.errors import InputError, LookalikeError, MissingExtraError
from lookalike.sources.frames import is_spark_frame

if TYPE_CHECKING:
    from lookalike.sources.base import Scanner

_ADDRESS = re.compile(r"spark://.+|local(\[[0-9*, ]+\])?")
_NO_JAVA = (
    "Spark could not be started: it needs Java 17 or 21. Install one, such as the package openjdk-17-jre-headless, and "
    "set JAVA_HOME if 'java' is not found."
)
_HOSTLESS = ("hdfs", "webhdfs", "swebhdfs", "viewfs")
"""File systems whose addresses begin with a host name, which is not a part of a table's identity."""


def is_cluster(address: str | os.PathLike[str]) -> bool:
    """Whether a text is the address of Spark.

    >>> is_cluster("spark://node:7077"), is_cluster("local[*]"), is_cluster("people.csv")
    (True, True, False)
    """
    return _ADDRESS.fullmatch(os.fspath(address)) is not None


@dataclass(frozen=True, repr=False, eq=False)
class SparkTable:
    """A table of Spark, such as SparkTable(frame), SparkTable(session, "clinic.visits"), SparkTable("local[*]", path).

    Attributes:
        where: a DataFrame, a SparkSession, or an address: spark://HOST:PORT, or local[*] for all cores of this machine.
            A session that runs in this process already is used, whatever its address.
        name: a table or view of the catalogue, or the path of Parquet or ORC files; empty for a DataFrame.
        dropped: columns to leave out.
    """

    where: Any
    name: str = ""
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "pyspark.sql.connect" in type(self.where).__module__:
            raise InputError("Sessions of Spark Connect are not supported. Give a DataFrame of a classic session.")
        if isinstance(self.where, str) and not is_cluster(self.where):
            raise InputError(f"{self.where!r} is not an address of Spark. Write spark://HOST:PORT or local[*].")
        if not is_spark_frame(self.where) and not self.name.strip():
            raise InputError("No table of Spark was named. Give --table NAME, or --table PATH of Parquet files.")

    @cached_property
    def session(self) -> Any:
        """The session of Spark, which is started if there is none."""
        return _started(self.where) if isinstance(self.where, str) else getattr(self.where, "sparkSession", self.where)

    @property
    def path(self) -> str | None:
        """The path that was given instead of a name of the catalogue."""
        return self.name if "/" in self.name or self.name.endswith((".parquet", ".orc")) else None

    @cached_property
    def frame(self) -> Any:
        """The table as a DataFrame, of which nothing is computed yet."""
        with asking(self.name):
            frame = self.where if is_spark_frame(self.where) else self._read()
            for name in set(self.dropped) - set(frame.columns):
                raise InputError(f"The table has no column {name!r} to drop. Check its spelling.")
            frame = frame.select(*(quoted(name) for name in frame.columns if name not in self.dropped))
            if not frame._jdf.queryExecution().analyzed().deterministic():
                raise InputError(
                    "The DataFrame holds random numbers or the like, so its rows would differ in every pass. Write "
                    "it to a table first, and give that."
                )
        return frame

    def _read(self) -> Any:
        if self.path is None:
            return self.session.table(self.name)
        if re.search(r"[*?{}\[\]]", self.path):
            raise InputError(f"{self.path} is a pattern. Give Spark the path of one file or folder.")
        if re.search(r"\.(csv|tsv|txt|json\w*)(\.\w+)?$", self.path):
            raise InputError(f"{self.path} holds texts. Read it into a DataFrame with its types, and give that.")
        return self.session.read.format("orc" if self.path.endswith(".orc") else "parquet").load(self._whole_path)

    @property
    def _whole_path(self) -> str:
        """The path from the root where it is a local one: Java may run in another folder."""
        given, local = str(self.path), "file:" in self.session._jsc.hadoopConfiguration().get("fs.defaultFS")
        return os.path.abspath(os.path.expanduser(given)) if local and not urlsplit(given).scheme else given

    @cached_property
    def location(self) -> str | None:
        """Where the files of the table are, as Spark spells it; None for views and tables without files."""
        if is_spark_frame(self.where):
            return None
        with asking(self.name):
            if self.path is None:
                rows = self.session.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
                found = [row["data_type"] for row in rows if row["col_name"] == "Location"]
                return found[-1] if found else None
            system, file = self.files()
            return system.makeQualified(file).toString()

    def files(self) -> tuple[Any, Any]:
        """The file system of the path, or of a new table of the catalogue, and the place in it."""
        if self.path is None:
            state = self.session._jsparkSession.sessionState()
            named = state.sqlParser().parseTableIdentifier(self.name)
            text = state.catalog().defaultTablePath(named).toString()
        else:
            text = self._whole_path
        file = self.session._jvm.org.apache.hadoop.fs.Path(text)
        return file.getFileSystem(self.session._jsc.hadoopConfiguration()), file

    @property
    def identity(self) -> str | None:
        """The table's name in ledgers: the path of local files, else the name in the catalogue or the path.

        Neither a host name nor a user is part of it. A DataFrame and a temporary view have none.
        """
        if is_spark_frame(self.where):
            return None
        self.frame  # noqa: B018 - refuses a table that is not there
        if self.location is not None and (self.path is not None or urlsplit(self.location).scheme == "file"):
            return location_identity(self.location)
        with asking(self.name):
            found = self.session.catalog.getTable(self.name)
        names = (found.catalog, *(found.namespace or ()), found.name)
        return None if found.isTemporary else "spark:" + ".".join(name for name in names if name).lower()

    def structure(self) -> pa.Schema:
        """Names and types of the columns."""
        from pyspark.sql.pandas.types import to_arrow_type

        zone = self.session.conf.get("spark.sql.session.timeZone")
        with asking(self.name):
            fields = [pa.field(f.name, to_arrow_type(f.dataType, timezone=zone)) for f in self.frame.schema]
        for field in fields:
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_duration(field.type):
                raise InputError(
                    f"Column {field.name!r} holds neither texts, numbers, times nor booleans. Leave it out with "
                    "--drop, or give a view that casts it."
                )
        return pa.schema(fields)

    def scanner(self) -> Scanner:
        """Return the engine that counts on the executors, after checking that these can."""
        from lookalike.sources.spark import Rows, SparkRows

        structure = self.structure()
        with asking(self.name):
            _check_workers(self.session)
            return SparkRows(Rows.of(self.frame, structure, self.location))

    def __repr__(self) -> str:
        return f"SparkTable({self.name!r})"


def is_spark(where: Any) -> bool:
    """Whether rows can be written through this: an address or a session of Spark."""
    session = type(where).__module__.startswith("pyspark.sql") and hasattr(where, "range")
    return session or (isinstance(where, str) and is_cluster(where))


def check_new(where: Any, name: str) -> None:
    """Refuse a new table or folder of Spark that cannot be made, before any budget is spent on its rows."""
    target = SparkTable(where, name)
    with asking(name, "write"):
        system, folder = target.files()
        if system.exists(folder) or (target.path is None and target.session.catalog.tableExists(name)):
            raise InputError(f"{name} exists already. Give --out-table another name.")
    _check_workers(target.session)


def write_parts(parts: Any, where: Any, name: str) -> None:
    """Write tables through Spark into a new table of the catalogue, or into a new folder of Parquet files.

    `parts` is a list of tables or a `RowParts`, whose tables are made by the executors. A task may be repeated: a part
    follows from its number alone. A failure leaves nothing behind.
    """
    from lookalike.sources.blocks import Making

    check_new(where, name)
    target = SparkTable(where, name)
    task = Making(parts, getattr(parts, "structure", None) or parts[0].schema)
    tasks = len(parts) if getattr(parts, "apart", False) else 1
    system, folder = target.files()
    try:
        with asking(name, "write"), no_logs():
            made = target.session.range(0, len(parts), 1, tasks).mapInArrow(task.made, task.spark_types())
            made.write.saveAsTable(name) if target.path is None else made.write.parquet(target._whole_path)
    except BaseException:
        with suppress(Exception):
            system.delete(folder, True)
        raise


def location_identity(location: str) -> str:
    """The name of files in ledgers: that of the same files without Spark where they are local.

    >>> location_identity("hdfs://name-node:8020/data/visits/"), location_identity("s3a://clinic/visits")
    ('spark:hdfs:/data/visits', 'spark:s3://clinic/visits')
    """
    parts = urlsplit(location)
    path = parts.path.rstrip("/")
    if parts.scheme in ("", "file"):
        return str(Path(path).resolve())
    if parts.scheme in _HOSTLESS:
        return f"spark:hdfs:{path}"
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"spark:{scheme}://{parts.netloc}{path}"


def quoted(name: str) -> str:
    """The name of a column as SQL of Spark writes it."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def no_logs() -> Iterator[None]:
    """Keep the libraries of this process from logging: Spark's logs errors with the values that caused them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def asking(name: str, action: str = "read") -> Iterator[None]:
    """Turn any failure before rows are read, or while made-up rows are written, into a message with the name alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (LookalikeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote anything
        kind = type(error).__name__
    else:
        return
    what = f"the table {name!r} of Spark" if name else "the DataFrame"
    remedy = f"Check its name or path, and the permission to {action} it."
    raise InputError(
        f"Cannot {action} {what} ({kind}). {remedy if kind == 'AnalysisException' else 'Is Spark running?'}"
    )


def _started(address: str) -> Any:
    """The session of this process, or a new one at the address, which writes no logs and opens no page.

    Logs of Spark may quote values of rows.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("pyspark", "spark", "tables of Spark") from None
    settings: dict[str, Any] = {
        "spark.app.name": "lookalike",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if address.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if "PYSPARK_SUBMIT_ARGS" not in os.environ:  # else Java takes 1 GB, which tens of millions of rows fill
            settings["spark.driver.memory"] = f"{_quarter_of_memory()}m"
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the only place where Spark looks for it
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        return SparkSession.builder.master(address).config(map=settings).getOrCreate()
    except PySparkException:
        raise InputError(_NO_JAVA) from None
    except Exception as error:  # noqa: BLE001 - the gateway to Java raises several kinds
        raise InputError(f"Cannot reach Spark at {address} ({type(error).__name__}). Check the address.") from None


def _quarter_of_memory() -> int:
    """A quarter of this machine's memory in MB, and 1,024 at least: what executors of this process may use."""
    try:
        return max(1024, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 22)
    except (ValueError, OSError, AttributeError):  # systems that do not say
        return 1024


_CHECKED: set[str] = set()
"""Applications of Spark whose executors were looked at."""


def _check_workers(session: Any) -> None:
    """Refuse executors that do not have this package, before anything is charged. No row is read for it."""
    from lookalike.sources.blocks import own_version

    application = session.sparkContext.applicationId
    if application in _CHECKED:
        return
    try:
        found = session.range(1).mapInArrow(own_version, "version string").toArrow().column("version").to_pylist()
    except Exception:  # noqa: BLE001 - such as no module, or another version of Python
        found = []
    if found != [version("lookalike")]:
        raise InputError(
            f"The executors of Spark cannot import lookalike {version('lookalike')}. Install it where they run, with "
            "the same version of Python, and let PYSPARK_PYTHON name that Python."
        )
    _CHECKED.add(application)
