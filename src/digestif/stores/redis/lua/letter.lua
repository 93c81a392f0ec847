#!lua flags=no-writes
-- Count what a dead letter holds, for a recount.
-- KEYS   1 its records
-- Reply  the letter itself or nil, empty if the key is no hash; its records
local stored = redis.pcall('HGET', KEYS[1], '')
if type(stored) == 'table' then
  return { '', 0 }
end
return { stored, redis.call('HLEN', KEYS[1]) - (stored and 1 or 0) }
