-- Refuse the call if the partition's `layout` is gone, or another one than the caller sent as its last argument. A mark
-- behind that asks for a look at the server: `?` refuses on a replica, `!` also where records could be evicted.
-- Only the first number of a layout, the oldest version that may still write, may be above the one that the caller
-- knows, as long as it is not above the version of these scripts.
local evicts = false -- the server's policy, if it was looked at and evicts keys that have no TTL: none of ours has one
if layout ~= ARGV[#ARGV] then
  local known, mark = string.match(ARGV[#ARGV], '^(.-)([?!]?)$')
  if layout ~= known then
    local VERSION = 4 -- of the schema, as in layout.py
    local oldest, rest = string.match(layout or '', '^(%d+)(/.+)$')
    local known_oldest, known_rest = string.match(known, '^(%d+)(/.+)$')
    local raised_to = oldest and rest == known_rest and tonumber(oldest) or math.huge
    if raised_to > VERSION or raised_to < tonumber(known_oldest) then
      return redis.error_reply('DIGESTIF_LAYOUT ' .. (layout or ''))
    end
  end
  if mark ~= '' then
    local info = call('INFO', 'memory', 'replication')
    local policy = string.match(info, 'maxmemory_policy:([%w-]+)')
    evicts = policy ~= 'noeviction' and not string.find(policy, '^volatile%-') and policy
    if string.match(info, 'role:(%w+)') ~= 'master' then
      return redis.error_reply('READONLY this server became a replica')
    end
    if mark == '!' and evicts then
      return redis.error_reply('DIGESTIF_EVICTS ' .. evicts)
    end
  end
end
