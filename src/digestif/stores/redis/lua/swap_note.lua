#!lua flags=allow-oom
-- Note something else under a name.
-- KEYS   12 notes (hash)
-- ARGV   4 name  5 what is noted now  6 what is to be noted; each may be empty, which is nothing
-- Reply  '1', or '0' with nothing done if something else is noted now
-- include: calls.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

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
