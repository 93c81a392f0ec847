#!lua flags=allow-oom
-- Note the settings of a namespace at its first use, and the layout of its first partition. Raise an older schema.
-- KEYS   1 meta (hash)  2 ledger of partition 0 (hash)
-- ARGV   1 version  2 oldest version that may still write  3 partitions; empty: a namespace that has no settings gets
--        none  4 an id, if the partition has none  5 the partitions that the caller insists on, or empty: if there are
--        others, nothing is noted
-- Reply  version, oldest, partitions and layout as noted; the layout is empty if the caller may not write, or the
--        partitions are others; or an empty list
-- Unguarded  a repeated call finds what the first one noted
local meta, ledger = KEYS[1], KEYS[2]
local version, oldest, partitions = unpack(redis.call('HMGET', meta, 'schema', 'oldest', 'partitions'))
local layout = redis.call('HGET', ledger, 'layout')
-- include: schemas.lua
oldest = oldest or version -- releases before used no other version than their own
if layout and (not oldest or tonumber(oldest) <= tonumber(ARGV[1])) then
  oldest, partitions = string.match(layout, '^(%d+)/(%d+)/')
end
if not partitions and ARGV[3] == '' then
  return {}
end
version, oldest, partitions = version or oldest or ARGV[1], oldest or ARGV[2], partitions or ARGV[3]
if tonumber(oldest) > tonumber(ARGV[1]) or (ARGV[5] ~= '' and ARGV[5] ~= partitions) then
  return { version, oldest, partitions, '' }
end
version = math.max(version, ARGV[1])
oldest = math.max(oldest, ARGV[2])
redis.call('HSET', meta, 'schema', version, 'oldest', oldest, 'partitions', partitions)
if redis.call('EXISTS', ledger) == 0 then
  redis.call('HSET', ledger, 'pauses', 1) -- from the beginning the order of paused timelines has all of them
end
layout = raised(layout, ARGV[2]) or oldest .. '/' .. partitions .. '/' .. ARGV[4]
redis.call('HSET', ledger, 'layout', layout)
return { tostring(version), tostring(oldest), partitions, layout }
