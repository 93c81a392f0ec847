#!lua flags=allow-oom
-- Write a damaged dead letter anew; one without any record is removed.
-- KEYS   12… the letter: records, ages, times; the same under the name that it is to have; the order of the dead letters
--        of its timeline
-- ARGV   4 {stored, member, letter}: what was found where it should say what it is, or empty; its place in the orders;
--        what it is to say
-- Reply  '1', or '0' with nothing done if it says something else by now
-- include: ending.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local BATCH = 3 -- keys
local key, owner, letter = KEYS[TIMELINES + BATCH], KEYS[TIMELINES + 2 * BATCH], request.letter
local stored = try('HGET', KEYS[TIMELINES], '')
if (type(stored) == 'string' and stored or '') ~= request.stored then
  return answer('0')
end
for place = TIMELINES, TIMELINES + BATCH - 1 do
  if KEYS[place] ~= KEYS[place + BATCH] and call('EXISTS', KEYS[place]) == 1 then
    call('RENAME', KEYS[place], KEYS[place + BATCH])
  end
end
if type(stored) == 'table' then -- no hash: kept as the value of a single record, as it is
  local content = call('TYPE', key).ok == 'string' and call('GET', key) or call('DUMP', key)
  call('UNLINK', key)
  call('HSET', key, 'raw', packed(add_to('accepted', 1), nil, struct.pack('>d', 0) .. content))
end
call('HDEL', key, '')
letter.records = call('HLEN', key)
call('ZREM', LETTERS, request.member)
call('ZREM', owner, request.member)
for offset = 1, 2 do
  local order = KEYS[TIMELINES + BATCH + offset]
  if call('TYPE', order).ok ~= 'zset' or (offset == 1 and call('ZCARD', order) ~= letter.records) then
    call('UNLINK', order)
  end
end
if letter.records > 0 then
  call('HSET', key, '', cmsgpack.pack(letter))
  call('ZADD', LETTERS, letter.buried, letter_member(letter))
  call('ZADD', owner, letter.buried, letter_member(letter))
end
return answer('1')
