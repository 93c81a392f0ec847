-- What to do where the partition's `layout` is not what the caller sent as its last argument. It is gone or another one:
-- refuse the call. Or a mark stands behind it and the server is to be looked at: `?` refuses on a replica, `!` also where
-- records could be evicted. (Statements, not a function: calls that are in order don't come here.)
local known, mark = string.match(ARGV[#ARGV], '^(.-)([?!]?)$')
if layout ~= known then
  return redis.error_reply('DIGESTIF_LAYOUT ' .. (layout or ''))
end
local info = call('INFO', 'memory', 'replication')
local eviction = string.match(info, 'maxmemory_policy:([%w-]+)')
if string.match(info, 'role:(%w+)') ~= 'master' then
  return redis.error_reply('READONLY this server became a replica')
end
if mark == '!' and eviction ~= 'noeviction' then
  return redis.error_reply('DIGESTIF_EVICTS ' .. eviction)
end
