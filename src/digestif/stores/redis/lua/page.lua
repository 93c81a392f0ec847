#!lua flags=no-writes
-- Read a page of a batch, newest first.
-- KEYS   1 records  2 ages  3 times
-- ARGV   1 limit  2 {timestamp, arrival} of the record to go on after, or empty
-- Reply  key, record, …
-- include: paging.lua

return (page(batch_found_at(1), ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2]) or nil, tonumber(ARGV[1])))
