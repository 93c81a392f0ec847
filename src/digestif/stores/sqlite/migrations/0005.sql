-- Documents that a service keeps for a while: messages that were sent, answers to requests, a log of changes.
CREATE TABLE document (
    number     INTEGER PRIMARY KEY,
    namespace  INTEGER NOT NULL,
    collection TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    timeline   TEXT,
    at         INTEGER NOT NULL,
    expires    INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (namespace, collection, key)
) STRICT;
CREATE INDEX document_number   ON document (namespace, collection, number);
CREATE INDEX document_timeline ON document (namespace, timeline, collection, number) WHERE timeline IS NOT NULL;

-- Digests that ended as delivered.
ALTER TABLE namespace ADD COLUMN digests INTEGER NOT NULL DEFAULT 0;

-- The history for people, who look at its latest entries.
CREATE INDEX history_number   ON history (namespace, number);
CREATE INDEX history_timeline ON history (namespace, timeline, number);
