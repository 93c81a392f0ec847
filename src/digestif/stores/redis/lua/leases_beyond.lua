#!lua flags=no-writes
-- Find timelines that are not paused and whose lease ends after a time, the earliest first.
-- KEYS   those of the partition
-- ARGV   4 {time, end, limit}: leases that end at `end` belong to a move
-- Reply  their names, each followed by the end of its lease
-- include: partition.lua

local layout = call('HGET', LEDGER, 'layout')
-- include: layout.lua
local request = cmsgpack.unpack(ARGV[4])
local first, last = string.format('(%.0f', request.time), string.format('(%.0f', request['end'])
return call('ZRANGEBYSCORE', LEASES, first, last, 'WITHSCORES', 'LIMIT', 0, request.limit)
