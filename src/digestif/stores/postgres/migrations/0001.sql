-- The tables of a PostgreSQL store, schema 1. Several namespaces may share them. Names and bodies are bytes of UTF-8: a key may hold
-- any character, and bytes sort by code points whatever the collation of the database is.

CREATE TABLE namespace (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

-- The ledger, in shares: each backend counts in one of them, so that concurrent writers do not wait for each other.
CREATE TABLE ledger (
    namespace  integer NOT NULL REFERENCES namespace,
    share      integer NOT NULL,
    accepted   bigint NOT NULL DEFAULT 0,
    pending    bigint NOT NULL DEFAULT 0,
    open       bigint NOT NULL DEFAULT 0,
    delivered  bigint NOT NULL DEFAULT 0,
    superseded bigint NOT NULL DEFAULT 0,
    dropped    bigint NOT NULL DEFAULT 0,
    expired    bigint NOT NULL DEFAULT 0,
    deleted    bigint NOT NULL DEFAULT 0,
    dead       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, share)
) WITH (fillfactor = 50);

-- Numbers for arrivals, batches and dead letters, rising; and for digests that ended.
CREATE SEQUENCE number;
CREATE SEQUENCE ended;

-- A timeline: its slot as JSON, and the times by which it is looked up (NULL: not in that order).
CREATE TABLE timeline (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace    integer NOT NULL,
    key          bytea NOT NULL,
    waiting      bigint,
    ready        bigint,
    since        bigint,
    until        bigint,
    paused_until bigint,
    expires      bigint,
    slot         bytea NOT NULL,
    UNIQUE (namespace, key)
) WITH (fillfactor = 70);
CREATE INDEX timeline_waiting      ON timeline (namespace, waiting, id)      WHERE waiting IS NOT NULL;
CREATE INDEX timeline_ready        ON timeline (namespace, ready, id)        WHERE ready IS NOT NULL;
CREATE INDEX timeline_since        ON timeline (namespace, since, id)        WHERE since IS NOT NULL;
CREATE INDEX timeline_until        ON timeline (namespace, until, id)        WHERE until IS NOT NULL;
CREATE INDEX timeline_paused_until ON timeline (namespace, paused_until, id) WHERE paused_until IS NOT NULL;
CREATE INDEX timeline_expires      ON timeline (namespace, expires, id)      WHERE expires IS NOT NULL;

-- A record in its batch. A batch belongs to a timeline's pending records, its unfinished digest, a dead letter or the trash.
CREATE TABLE record (
    batch     bigint NOT NULL,
    key       bytea NOT NULL,
    arrival   bigint NOT NULL,
    namespace integer NOT NULL,
    timestamp double precision NOT NULL,
    deadline  bigint,
    expires   bigint NOT NULL,
    payload   bytea,
    PRIMARY KEY (batch, key)
);
CREATE INDEX record_age      ON record (batch, timestamp, arrival);
CREATE INDEX record_expiry   ON record (batch, expires);
CREATE INDEX record_deadline ON record (batch, deadline) WHERE deadline IS NOT NULL;

-- A digest that was given up.
CREATE TABLE letter (
    number    bigint PRIMARY KEY,
    namespace integer NOT NULL,
    id        bytea NOT NULL,
    timeline  bytea NOT NULL,
    batch     bigint NOT NULL,
    body      bytea NOT NULL,
    UNIQUE (namespace, id)
);
CREATE INDEX letter_number   ON letter (namespace, number);
CREATE INDEX letter_timeline ON letter (namespace, timeline, number);

-- Digests that ended lately: a ring of fixed length, written over from the oldest.
CREATE TABLE history (
    namespace integer NOT NULL,
    place     integer NOT NULL,
    number    bigint NOT NULL,
    timeline  bytea NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (namespace, place)
);

-- Batches that nothing owns any more, erased page by page.
CREATE TABLE trash (
    namespace integer NOT NULL,
    batch     bigint NOT NULL,
    PRIMARY KEY (namespace, batch)
);

-- Records that were added inside the caller's own transaction: that locks nothing, and later calls fold them in.
CREATE TABLE inbox (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace integer NOT NULL,
    timeline  bytea NOT NULL,
    key       bytea NOT NULL,
    timestamp double precision NOT NULL,
    payload   bytea NOT NULL,
    within    bigint,
    terms     bytea NOT NULL
);
CREATE INDEX inbox_namespace ON inbox (namespace, id);
