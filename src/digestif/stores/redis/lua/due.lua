#!lua flags=no-writes
-- Find timelines that wait and are due, earliest first.
-- KEYS   those of the partition
-- ARGV   4 {deadline, limit, after}: after = {time, name}, the last one of the page before, or nil
-- Reply  the number of the last move, then name and time of each; none while the store is being moved
-- include: places.lua

local LEDGER, WAITING = KEYS[1], KEYS[3] -- as in partition.lua, which would ask for the time
local layout, moving = unpack(call('HMGET', LEDGER, 'layout', 'moving'))
-- include: layout.lua
if moving then
  return { '0' }
end
local request = cmsgpack.unpack(ARGV[4])

local start = request.after and rank_after_place(WAITING, request.after) or 0
local found = call('ZRANGEBYSCORE', WAITING, '-inf', request.deadline, 'WITHSCORES', 'LIMIT', start, request.limit)
table.insert(found, 1, call('HGET', LEDGER, 'number') or '0')
return found
