-- A table whose name is the oldest version of the schema that may still write: every transaction locks it by that name. It has no columns, and no
-- rows. A release that raises the number renames it.
CREATE TABLE writers_10 ();
