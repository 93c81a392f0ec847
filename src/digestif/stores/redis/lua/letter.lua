#!lua flags=no-writes
-- Count what a dead letter holds, for a recount.
-- KEYS   1 its records
-- Reply  the letter itself or nil; its records
return { redis.call('HGET', KEYS[1], ''), redis.call('HLEN', KEYS[1]) - 1 }
