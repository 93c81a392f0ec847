-- What goes on between this store and another while one is moved into the other.
CREATE TABLE note (
    namespace integer NOT NULL,
    name      bytea NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (namespace, name)
);
