-- Notes about transfers between this store and another.
CREATE TABLE note (
    namespace integer NOT NULL,
    name      bytea NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- When a record was appended: its deadline and its expiry count from there.
ALTER TABLE inbox ADD COLUMN added bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
