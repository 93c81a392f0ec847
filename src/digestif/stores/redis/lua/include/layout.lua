-- Refuse the call if the partition's `layout` is gone, or another one than the caller sent as its last argument. A mark
-- behind that asks for a look at the server: `?` refuses on a replica, `!` also where records could be evicted.
local eviction -- the server's policy, if it was looked at
if layout ~= ARGV[#ARGV] then
  local known, mark = string.match(ARGV[#ARGV], '^(.-)([?!]?)$')
  if layout ~= known then
    return redis.error_reply('DIGESTIF_LAYOUT ' .. (layout or ''))
  end
  local info = call('INFO', 'memory', 'replication')
  eviction = string.match(info, 'maxmemory_policy:([%w-]+)')
  if string.match(info, 'role:(%w+)') ~= 'master' then
    return redis.error_reply('READONLY this server became a replica')
  end
  if mark == '!' and eviction ~= 'noeviction' then
    return redis.error_reply('DIGESTIF_EVICTS ' .. eviction)
  end
end
