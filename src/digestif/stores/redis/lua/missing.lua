#!lua flags=no-writes
-- Find keys that the order by age has and the records do not, a page at a time.
-- KEYS   1 records  2 ages
-- ARGV   1 cursor
-- Reply  the next cursor, '0' at the end; the keys
-- include: batches.lua

local cursor, flat = unpack(call('ZSCAN', KEYS[2], ARGV[1], 'COUNT', 500))
local keys = {}
for place = 1, #flat, 2 do
  local key = key_of(flat[place])
  if call('HEXISTS', KEYS[1], key) == 0 then
    table.insert(keys, key)
  end
end
return { cursor, keys }
