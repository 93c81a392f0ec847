-- Notes about transfers between this store and another.
CREATE TABLE note (
    namespace INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
