-- The tables of a SQLite store. Several namespaces may share a file.

-- Counters of each namespace: the ledger, and the last number that it gave to a timeline, an arrival, a batch or a dead
-- letter. The next number is above those of all namespaces, so it is given once in the file.
CREATE TABLE namespace (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    accepted   INTEGER NOT NULL DEFAULT 0,
    pending    INTEGER NOT NULL DEFAULT 0,
    open       INTEGER NOT NULL DEFAULT 0,
    delivered  INTEGER NOT NULL DEFAULT 0,
    superseded INTEGER NOT NULL DEFAULT 0,
    dropped    INTEGER NOT NULL DEFAULT 0,
    expired    INTEGER NOT NULL DEFAULT 0,
    deleted    INTEGER NOT NULL DEFAULT 0,
    dead       INTEGER NOT NULL DEFAULT 0,
    ended      INTEGER NOT NULL DEFAULT 0, -- digests, for the place in the history
    number     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A timeline: its slot as JSON, and the times by which it is looked up (NULL: not in that order).
CREATE TABLE timeline (
    id           INTEGER PRIMARY KEY,
    namespace    INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    waiting      INTEGER,
    ready        INTEGER,
    since        INTEGER,
    until        INTEGER,
    paused_until INTEGER,
    expires      INTEGER,
    slot         TEXT    NOT NULL,
    UNIQUE (namespace, key)
) STRICT;
CREATE INDEX timeline_waiting ON timeline (namespace, waiting) WHERE waiting IS NOT NULL;
CREATE INDEX timeline_ready   ON timeline (namespace, ready)   WHERE ready IS NOT NULL;
CREATE INDEX timeline_since   ON timeline (namespace, since)   WHERE since IS NOT NULL;
CREATE INDEX timeline_until   ON timeline (namespace, until)   WHERE until IS NOT NULL;
CREATE INDEX timeline_paused_until ON timeline (namespace, paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX timeline_expires ON timeline (namespace, expires) WHERE expires IS NOT NULL;

-- A record in its batch. A batch belongs to a timeline's pending records, its unfinished digest, a dead letter or the trash.
-- Rows lie in the order of arrival, so that adding appends, whatever the keys are.
CREATE TABLE record (
    arrival   INTEGER PRIMARY KEY,
    batch     INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    timestamp REAL    NOT NULL,
    deadline  INTEGER,
    expires   INTEGER NOT NULL,
    payload   BLOB,
    UNIQUE (batch, key)
) STRICT;
CREATE INDEX record_age      ON record (batch, timestamp, arrival);
CREATE INDEX record_expiry   ON record (batch, expires);
CREATE INDEX record_deadline ON record (batch, deadline) WHERE deadline IS NOT NULL;

-- A digest that was given up.
CREATE TABLE letter (
    number    INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    timeline  TEXT    NOT NULL,
    batch     INTEGER NOT NULL,
    body      TEXT    NOT NULL,
    UNIQUE (namespace, id)
) STRICT;
CREATE INDEX letter_number   ON letter (namespace, number);
CREATE INDEX letter_timeline ON letter (namespace, timeline, number);

-- Digests that ended lately: a ring of fixed length, written over from the oldest.
CREATE TABLE history (
    namespace INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    timeline  TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    PRIMARY KEY (namespace, place)
) STRICT, WITHOUT ROWID;

-- Batches that nothing owns any more, erased page by page.
CREATE TABLE trash (
    namespace INTEGER NOT NULL,
    batch     INTEGER NOT NULL,
    PRIMARY KEY (namespace, batch)
) STRICT, WITHOUT ROWID;
