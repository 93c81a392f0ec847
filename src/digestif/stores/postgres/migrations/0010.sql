-- A table whose name is the oldest version of the schema that may still write: every transaction locks it by that name. It has no columns, and no
-- rows. A release that raises the number renames it. Every role may read it: one with rights on the other tables needs no further grant.
CREATE TABLE writers_10 ();
GRANT SELECT ON writers_10 TO PUBLIC;
