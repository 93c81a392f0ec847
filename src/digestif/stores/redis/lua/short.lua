#!lua flags=no-writes
-- Find records that are too short to be one, a page at a time.
-- KEYS   1 records
-- ARGV   1 cursor
-- Reply  the next cursor, '0' at the end; the keys of the records
-- include: batches.lua

local cursor, flat = unpack(call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 500))
local keys = {}
for place = 1, #flat, 2 do
  if flat[place] ~= '' and not timestamp_place(flat[place + 1]) then
    table.insert(keys, flat[place])
  end
end
return { cursor, keys }
