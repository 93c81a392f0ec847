#!lua flags=no-writes
-- Find timelines whose lease lapsed and that were not opened again, the first to lapse first.
-- KEYS   those of the partition
-- ARGV   4 how many to pass over  5 how many
-- Reply  their names; none while the store is being moved
-- include: partition.lua

local layout, moving = unpack(call('HMGET', LEDGER, 'layout', 'moving'))
-- include: layout.lua
if moving then
  return {}
end
return call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', ARGV[4], ARGV[5])
