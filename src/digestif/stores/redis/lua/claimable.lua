#!lua flags=no-writes
-- Timelines that may be claimed, earliest first: ready, waiting and due, or with a lapsed lease.
-- ARGV   4 how many
-- Reply  their names
-- include: partition.lua
-- include: now.lua

local layout = call('HGET', LEDGER, 'layout')
if layout ~= ARGV[#ARGV] then
  -- include: layout.lua
end
local limit = tonumber(ARGV[4])
local candidates = {}

local function collect(order, last)
  local found = call('ZRANGEBYSCORE', order, '-inf', last, 'WITHSCORES', 'LIMIT', 0, limit)
  for place = 1, #found, 2 do
    table.insert(candidates, { tonumber(found[place + 1]), found[place] })
  end
end

collect(LEASES, now)
collect(WAITING, now)
collect(READY, '+inf')
table.sort(candidates, function(one, other)
  if one[1] ~= other[1] then
    return one[1] < other[1]
  end
  return one[2] < other[2]
end)

local names = {}
for place = 1, math.min(limit, #candidates) do
  names[place] = candidates[place][2]
end
return names
