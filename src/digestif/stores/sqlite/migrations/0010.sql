-- Rings: what is bounded is bounded for each prefix that a service has named, and for the rest, whose ring is ''.
ALTER TABLE history  ADD COLUMN ring TEXT NOT NULL DEFAULT '';
ALTER TABLE removal  ADD COLUMN ring TEXT NOT NULL DEFAULT '';
ALTER TABLE document ADD COLUMN ring TEXT NOT NULL DEFAULT '';

-- Entries of the rest have the places below the limit, which are used again. Those of a prefix have places above, which rise: the lowest go.
CREATE INDEX history_ring ON history (namespace, ring, place) WHERE ring <> '';

DROP INDEX removal_number;
CREATE INDEX removal_ring  ON removal (namespace, ring, number);
CREATE INDEX document_ring ON document (namespace, collection, ring, number);
