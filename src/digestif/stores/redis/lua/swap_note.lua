#!lua flags=allow-oom
-- Replace a note, if it is still the one that the caller knows.
-- KEYS   12 notes (hash)
-- ARGV   4 name  5 the old note  6 the new one; empty is none
-- Reply  '1', or '0' with nothing done if another one is noted
-- include: calls.lua

local notes, name, old, new = KEYS[12], ARGV[4], ARGV[5], ARGV[6]
if (call('HGET', notes, name) or '') ~= old then
  return answer('0')
end
if new == '' then
  call('HDEL', notes, name)
else
  call('HSET', notes, name, new)
end
return answer('1')
