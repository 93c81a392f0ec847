-- Documents that a service keeps for a while: messages that were sent, answers to requests, a log of changes.
CREATE TABLE document (
    number     bigint PRIMARY KEY,
    namespace  integer NOT NULL,
    collection bytea NOT NULL,
    key        bytea NOT NULL,
    timeline   bytea,
    at         bigint NOT NULL,
    expires    bigint NOT NULL,
    body       bytea NOT NULL,
    UNIQUE (namespace, collection, key)
);
CREATE INDEX document_number   ON document (namespace, collection, number);
CREATE INDEX document_timeline ON document (namespace, timeline, collection, number) WHERE timeline IS NOT NULL;

-- Digests that ended as delivered.
ALTER TABLE ledger ADD COLUMN digests bigint NOT NULL DEFAULT 0;

-- The history for people, who look at its latest entries.
CREATE INDEX history_number   ON history (namespace, number);
CREATE INDEX history_timeline ON history (namespace, timeline, number);
