#!lua flags=allow-oom
-- Note the settings of a namespace at its first use, and the layout of its first partition. Raise an older schema.
-- KEYS   1 meta (hash)  2 ledger of partition 0 (hash)
-- ARGV   1 schema  2 partitions; empty: a namespace that has no settings gets none  3 an id, if the partition has none
--        4 the partitions that the caller insists on, or empty: if there are others, nothing is noted
-- Reply  schema, partitions and layout as noted; the layout is empty if the schema is another one, or the partitions are;
--        or an empty list
-- Unguarded  a repeated call finds what the first one noted
local meta, ledger = KEYS[1], KEYS[2]
local schema, partitions = unpack(redis.call('HMGET', meta, 'schema', 'partitions'))
local layout = redis.call('HGET', ledger, 'layout')
-- include: schemas.lua
schema = raised(schema)
layout = raised(layout)
if layout and (not schema or schema == ARGV[1]) then
  schema, partitions = string.match(layout, '^(%d+)/(%d+)/')
end
if not partitions and ARGV[2] == '' then
  return {}
end
schema, partitions = schema or ARGV[1], partitions or ARGV[2]
if ARGV[4] ~= '' and ARGV[4] ~= partitions then
  return { schema, partitions, '' }
end
redis.call('HSET', meta, 'schema', schema, 'partitions', partitions)
if schema ~= ARGV[1] then
  return { schema, partitions, '' }
end
if redis.call('EXISTS', ledger) == 0 then
  redis.call('HSET', ledger, 'pauses', 1) -- from the beginning the order of paused timelines has all of them
end
layout = layout or schema .. '/' .. partitions .. '/' .. ARGV[3]
redis.call('HSET', ledger, 'layout', layout)
return { schema, partitions, layout }
