#!lua flags=allow-oom
-- Note the layout of a partition that has none, and raise one that lets older versions write.
-- KEYS   1 ledger (hash)
-- ARGV   1 layout  2 the oldest version that may still write
-- Reply  the layout that is noted
-- Unguarded  a repeated call finds what the first one noted
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'pauses', 1) -- from the beginning the order of paused timelines has all of them
end
-- include: schemas.lua
local layout = raised(redis.call('HGET', KEYS[1], 'layout') or ARGV[1], ARGV[2])
redis.call('HSET', KEYS[1], 'layout', layout)
return layout
