"""The tables of the catalog and the stamps that say whose they are."""

from __future__ import annotations

# "MSix": a file with another number (or none, but with tables) is not ours.
APPLICATION_ID = 0x4D536978
# Counts up with every change below; a file of any other version is set aside and made again.
SCHEMA_VERSION = 2

# `live` 0: announced in the journal and not published yet. AUTOINCREMENT: a number is never given twice, so
# an entry of an engine whose number is not live is recognised as stale. Paths are bytes because file names
# need not be valid Unicode. Heavy columns stand in `contents`, which opening does not read.
SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
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
    facts BLOB NOT NULL
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
CREATE TABLE models (
    model_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    used INTEGER NOT NULL,
    UNIQUE (name, dimensions)
);
CREATE TABLE vectors (
    model_id INTEGER NOT NULL REFERENCES models (model_id) ON DELETE CASCADE,
    hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    unused_since INTEGER,
    UNIQUE (model_id, hash)
);
CREATE TABLE journal (
    document_id INTEGER PRIMARY KEY,
    action TEXT NOT NULL CHECK (action IN ('add', 'remove'))
);
"""

# WAL: readers and the writer do not wait for each other. FULL: a number given to a document is on the disk
# before an engine learns it, so that a power cut cannot give it twice. Temporary tables stay in memory,
# because the system's temporary folder is not ours to keep text in.
SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA busy_timeout = 5000",
)
