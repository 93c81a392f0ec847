#!lua flags=no-writes
-- Find timelines for maintenance: ready for too long, with a lapsed lease, with expired records.
-- KEYS   those of the partition
-- ARGV   4 {deadline, limit}: without a deadline, ready ones are left alone, and lapsed ones unless they are paused
-- Reply  three lists of names, and the server's policy of eviction, if it was looked at and could evict records
-- include: partition.lua

local layout = call('HGET', LEDGER, 'layout')
-- include: layout.lua
local request = cmsgpack.unpack(ARGV[4])

local function until_now(order, last)
  return call('ZRANGEBYSCORE', order, '-inf', last, 'WITHSCORES', 'LIMIT', 0, request.limit)
end

-- The earliest of two orders.
local function merged(one, other)
  local names = {}
  local i, j = 1, 1
  while #names < request.limit and (one[i] or other[j]) do
    if one[i] and (not other[j] or tonumber(one[i + 1]) <= tonumber(other[j + 1])) then
      table.insert(names, one[i])
      i = i + 2
    else
      table.insert(names, other[j])
      j = j + 2
    end
  end
  return names
end

local stale = request.deadline and until_now(SINCE, request.deadline) or {}
local lapsed = request.deadline and until_now(LEASES, now) or {}
return { merged(stale, {}), merged(lapsed, until_now(PAUSED, now)), merged(until_now(EXPIRING, now), {}), evicts }
