#!lua flags=no-writes
-- Find timelines whose lease lapsed and that were not opened again, the first to lapse first.
-- KEYS   those of the partition
-- ARGV   4 how many
-- Reply  their names
-- include: partition.lua

local layout = call('HGET', LEDGER, 'layout')
-- include: layout.lua
return call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, ARGV[4])
