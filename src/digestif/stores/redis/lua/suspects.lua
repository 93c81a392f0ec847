#!lua flags=no-writes
-- Timelines whose lease lapsed and that nobody took over, the first to lapse first.
-- ARGV   4 how many
-- Reply  their names
-- include: partition.lua
-- include: now.lua

local layout = call('HGET', LEDGER, 'layout')
if layout ~= ARGV[#ARGV] then
  -- include: layout.lua
end
return call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, ARGV[4])
