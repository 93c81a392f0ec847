-- The names of timelines, and their locks. Rows of timelines are written over and over: while an old transaction keeps the server from removing
-- dead versions, each write would walk over all of them in a unique index. Names are written once.
-- First wait for transactions that are adding a timeline.
LOCK TABLE timeline IN ACCESS EXCLUSIVE MODE;
CREATE TABLE timeline_name (
    namespace integer NOT NULL,
    key       bytea NOT NULL,
    PRIMARY KEY (namespace, key)
);
DELETE FROM timeline WHERE slot = '';
INSERT INTO timeline_name SELECT namespace, key FROM timeline;

-- The newest version of a timeline comes first in its index, before dead ones.
ALTER TABLE timeline
    DROP CONSTRAINT timeline_pkey,
    DROP CONSTRAINT timeline_namespace_key_key,
    ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE timeline ALTER COLUMN version SET DEFAULT nextval('number');
CREATE INDEX timeline_version ON timeline (namespace, key, version DESC);
-- Without this, a publication of all tables would forbid changes of a table without a unique index.
ALTER TABLE timeline REPLICA IDENTITY FULL;
