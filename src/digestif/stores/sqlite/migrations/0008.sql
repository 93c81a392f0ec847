-- Records of a timeline that were retracted or expired: what is remembered of them.
CREATE TABLE removal (
    number    INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    timeline  TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    UNIQUE (namespace, timeline)
) STRICT;
CREATE INDEX removal_number ON removal (namespace, number);
