#!lua flags=no-writes
-- Read a page of a batch, newest first.
-- KEYS   1 records  2 ages  3 times
-- ARGV   1 limit  2 {timestamp, arrival} of the record to go on after, or empty
-- Reply  1 if these were the last, else 0; a list of key and record in turn
-- include: pages.lua

local after = ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2]) or nil
local flat, complete = page(batch_found_at(1), after, tonumber(ARGV[1]), HEAVY)
return { complete and 1 or 0, flat }
