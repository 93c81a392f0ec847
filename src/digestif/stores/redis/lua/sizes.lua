#!lua flags=no-writes
-- Count what a timeline holds, for a recount.
-- KEYS   the timeline
-- Reply  its slot or nil; records that are pending, in the digest, being merged; the same in their orders by age, 0 if
--        there is none
local stored = redis.call('HGET', KEYS[1], '')
local reply = { stored }
for batch = 0, 2 do
  reply[2 + batch] = redis.call('HLEN', KEYS[1 + 3 * batch])
  reply[5 + batch] = redis.call('ZCARD', KEYS[2 + 3 * batch])
end
reply[2] = reply[2] - (stored and 1 or 0)
return reply
