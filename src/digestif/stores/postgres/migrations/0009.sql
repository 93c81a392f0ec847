-- Records of a timeline that were retracted or expired: what is remembered of them.
CREATE TABLE removal (
    namespace integer NOT NULL,
    timeline  bytea NOT NULL,
    number    bigint NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (namespace, timeline)
);
CREATE INDEX removal_number ON removal (namespace, number);
