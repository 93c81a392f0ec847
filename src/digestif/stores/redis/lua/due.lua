#!lua flags=no-writes
-- Find timelines that wait and are due, earliest first.
-- KEYS   those of the partition
-- ARGV   4 {deadline, limit, after}: after = {time, name}, the last one of the page before, or nil
-- Reply  the number of the last move, then name and time of each; none while the store is being moved
-- include: pages.lua

local LEDGER, WAITING = KEYS[1], KEYS[3] -- as in partition.lua, which would ask for the time
local layout, moving = unpack(call('HMGET', LEDGER, 'layout', 'moving'))
-- include: layout.lua
if moving then
  return { '0' }
end
local request = cmsgpack.unpack(ARGV[4])

-- Byte by byte, as the server orders equal times: Lua itself compares by the rules of the server's language.
local function is_after(one, other)
  for place = 1, math.min(string.len(one), string.len(other)) do
    local byte, another = string.byte(one, place), string.byte(other, place)
    if byte ~= another then
      return byte > another
    end
  end
  return string.len(one) > string.len(other)
end

local start = 0
if request.after then
  local at, name = string.format('%.17g', request.after[1]), request.after[2]
  start = cut_ties(call('ZCOUNT', WAITING, '-inf', '(' .. at), call('ZCOUNT', WAITING, at, at), function(rank)
    return call('ZRANGE', WAITING, rank, rank)[1]
  end, function(member)
    return not is_after(member, name)
  end)
end
local found = call('ZRANGEBYSCORE', WAITING, '-inf', request.deadline, 'WITHSCORES', 'LIMIT', start, request.limit)
table.insert(found, 1, call('HGET', LEDGER, 'number') or '0')
return found
