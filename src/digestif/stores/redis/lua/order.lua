#!lua flags=no-writes
-- Read timelines of an order of the schedule, earliest first.
-- KEYS   1 the order (zset)
-- ARGV   1 limit  2 {time, name} of the timeline to go on after, or empty
-- Reply  name and time of each in turn
-- include: places.lua

local start = ARGV[2] ~= '' and rank_after_place(KEYS[1], cmsgpack.unpack(ARGV[2])) or 0
return call('ZRANGE', KEYS[1], start, start + tonumber(ARGV[1]) - 1, 'WITHSCORES')
