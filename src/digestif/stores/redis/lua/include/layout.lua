-- Refuse the call if the partition's `layout` is gone, or another one than the caller sent as its last argument. A mark
-- behind that asks for a look at the server: `?` refuses on a replica, `!` also where records could be evicted.
local evicts = false -- the server's policy, if it was looked at and evicts keys that have no TTL: none of ours has one
if layout ~= ARGV[#ARGV] then
  local known, mark = string.match(ARGV[#ARGV], '^(.-)([?!]?)$')
  if layout ~= known then
    return redis.error_reply('DIGESTIF_LAYOUT ' .. (layout or ''))
  end
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
