#!lua flags=allow-oom
-- Set the counters of the ledger to what a recount found, if nothing has moved meanwhile.
-- KEYS   those of the partition
-- ARGV   4 {seen, counts}: what `moved` and `accepted` were while it was counted; the names and values of the counters
-- Reply  '1', or '0' with nothing done if something has moved
-- include: calls.lua

local request = cmsgpack.unpack(ARGV[4])
local moved, accepted = unpack(call('HMGET', LEDGER, 'moved', 'accepted'))
if (moved or '') ~= request.seen[1] or (accepted or '') ~= request.seen[2] then
  return answer('0')
end
for counter, value in pairs(request.counts) do
  call('HSET', LEDGER, counter, string.format('%.0f', value))
end
return answer('1')
