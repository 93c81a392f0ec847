-- The version of the schema. The oldest version that may still write is `PRAGMA user_version`: every transaction reads it.
CREATE TABLE schema (version INTEGER NOT NULL) STRICT;
INSERT INTO schema (version) VALUES (9);
