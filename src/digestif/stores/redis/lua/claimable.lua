#!lua flags=no-writes
-- Find timelines that may be claimed, earliest first: ready, or waiting and due.
-- KEYS   those of the partition
-- ARGV   4 how many  5 '1' to find them also while the store is being moved, else '0'
-- Reply  when the lease of the first suspect lapsed, nil if there is none; then the names of the timelines
-- include: partition.lua

local layout, moving = unpack(call('HMGET', LEDGER, 'layout', 'moving'))
-- include: layout.lua
if moving and ARGV[5] ~= '1' then
  return { false }
end
local limit = tonumber(ARGV[4])
local candidates = {}

local function earliest(order, last, many)
  return call('ZRANGEBYSCORE', order, '-inf', last, 'WITHSCORES', 'LIMIT', 0, many)
end

local function collect(order, last)
  local found = earliest(order, last, limit)
  for place = 1, #found, 2 do
    table.insert(candidates, { tonumber(found[place + 1]), found[place] })
  end
end

collect(WAITING, now)
collect(READY, '+inf')
table.sort(candidates, function(one, other)
  if one[1] ~= other[1] then
    return one[1] < other[1]
  end
  return one[2] < other[2]
end)

local suspect = earliest(LEASES, now, 1)
local reply = { suspect[2] or false }
for place = 1, math.min(limit, #candidates) do
  reply[place + 1] = candidates[place][2]
end
return reply
