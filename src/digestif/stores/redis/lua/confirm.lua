#!lua flags=allow-oom
-- Write something that leaves nothing behind: WAIT covers only the writes of its own connection.
-- KEYS   1 a key of the partition that nothing else uses
-- Reply  OK
-- Unguarded  a repeated call writes the same
return redis.call('SET', KEYS[1], '', 'PX', 1)
