#!lua flags=allow-oom
-- Note the settings of a namespace at its first use.
-- KEYS   1 meta (hash)
-- ARGV   1 schema  2 partitions
-- Reply  what is noted: schema, partitions
redis.call('HSETNX', KEYS[1], 'schema', ARGV[1])
redis.call('HSETNX', KEYS[1], 'partitions', ARGV[2])
return redis.call('HMGET', KEYS[1], 'schema', 'partitions')
