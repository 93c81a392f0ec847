-- The names of timelines, and their locks. Rows of timelines are written over and over; while an old transaction keeps what is dead from being
-- cleared away, a unique index on them would be walked over all of it at each write. Names are written once.
-- Whoever is just adding one comes first.
LOCK TABLE timeline IN ACCESS EXCLUSIVE MODE;
CREATE TABLE timeline_name (
    namespace integer NOT NULL,
    key       bytea NOT NULL,
    PRIMARY KEY (namespace, key)
);
DELETE FROM timeline WHERE slot = '';
INSERT INTO timeline_name SELECT namespace, key FROM timeline;

-- The newest version of a timeline comes first in its index, before those that are dead.
ALTER TABLE timeline
    DROP CONSTRAINT timeline_pkey,
    DROP CONSTRAINT timeline_namespace_key_key,
    ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE timeline ALTER COLUMN version SET DEFAULT nextval('number');
CREATE INDEX timeline_version ON timeline (namespace, key, version DESC);
-- Without a unique index, a publication of all tables would forbid to change it.
ALTER TABLE timeline REPLICA IDENTITY FULL;
