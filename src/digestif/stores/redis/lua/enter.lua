#!lua flags=allow-oom
-- Note the layout of a partition that has none.
-- KEYS   1 ledger (hash)
-- ARGV   1 layout
-- Reply  the layout that is noted
-- Unguarded  a repeated call finds what the first one noted
redis.call('HSETNX', KEYS[1], 'layout', ARGV[1])
return redis.call('HGET', KEYS[1], 'layout')
