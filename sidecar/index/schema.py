"""The tables of the catalog and of the vectors' file, and the stamps that say whose they are."""

from __future__ import annotations

import msgspec


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of database file: what it is called in messages, how it is known, what stands in it.

    A file with another application id (or none, but with tables) is not ours; one of another version, or
    with other tables than `sql` makes, is set aside and made again.
    """

    name: str
    application_id: int
    version: int
    sql: str

    @property
    def script(self) -> str:
        """What makes an empty file one of these."""
        return (
            f"PRAGMA application_id = {self.application_id}; PRAGMA user_version = {self.version};{self.sql}"
        )


# `live` 0: announced in the journal and not published yet. AUTOINCREMENT: a number is never given twice, so
# an entry of an engine whose number is not live is recognised as stale. Paths are bytes because file names
# need not be valid Unicode. Heavy columns stand in `contents`, which opening does not read.
# `checksum` is over everything in the row that does not change with the years: a bit that rots inside a sound
# page would be believed otherwise.
CATALOG = Tables(
    name="catalog",
    application_id=0x4D536978,  # "MSix"
    version=3,
    sql="""
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE documents (
    document_id INTEGER PRIMARY KEY AUTOINCREMENT,
    live INTEGER NOT NULL,
    path BLOB NOT NULL,
    source TEXT NOT NULL,
    stamp TEXT NOT NULL,
    settled INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    day INTEGER,
    origin TEXT NOT NULL,
    notes BLOB NOT NULL,
    searchable_units INTEGER NOT NULL,
    term_count INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    units BLOB NOT NULL,
    chars BLOB NOT NULL,
    marked BLOB NOT NULL,
    facts BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE UNIQUE INDEX documents_by_path ON documents (path) WHERE live = 1;
CREATE TABLE contents (
    document_id INTEGER PRIMARY KEY REFERENCES documents (document_id) ON DELETE CASCADE,
    packed BLOB NOT NULL
);
CREATE TABLE blocks (
    document_id INTEGER NOT NULL REFERENCES documents (document_id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    first_unit INTEGER NOT NULL,
    last_unit INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (document_id, ordinal)
) WITHOUT ROWID;
CREATE INDEX blocks_by_hash ON blocks (hash);
CREATE TABLE journal (
    document_id INTEGER PRIMARY KEY,
    action TEXT NOT NULL CHECK (action IN ('add', 'remove'))
);
""",
)

# A file of its own: vectors are what costs most to make again, and outlive a catalog that is lost.
VECTORS = Tables(
    name="file of vectors",
    application_id=0x4D536976,  # "MSiv"
    version=1,
    sql="""
CREATE TABLE models (
    model_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    used INTEGER NOT NULL,
    sample BLOB,
    UNIQUE (name, dimensions)
);
CREATE TABLE vectors (
    model_id INTEGER NOT NULL REFERENCES models (model_id) ON DELETE CASCADE,
    hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    unused_since INTEGER,
    UNIQUE (model_id, hash)
);
""",
)

# WAL: readers and the writer do not wait for each other. FULL: a number given to a document is on the disk
# before an engine learns it, so that a power cut cannot give it twice. Temporary tables stay in memory,
# because the system's temporary folder is not ours to keep text in.
SETTINGS = (
    "PRAGMA {file}.journal_mode = WAL",
    "PRAGMA {file}.synchronous = FULL",
    "PRAGMA {file}.secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 5000",
)
