-- All paused timelines are found by an index; those that are not open have the end of no lease.
UPDATE timeline SET paused_until = 18014398509481984 WHERE paused_until IS NULL AND position('"paused":true'::bytea IN slot) > 0;
