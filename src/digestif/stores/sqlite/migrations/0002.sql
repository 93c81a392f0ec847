-- What goes on between this store and another while one is moved into the other.
CREATE TABLE note (
    namespace INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
