#!lua flags=allow-oom
-- Write a damaged dead letter anew, or delete it if it has no record.
-- KEYS   12… the letter: records, ages, times; the same under the name that it is to have; the order of the dead
--        letters of its timeline
-- ARGV   4 {stored, member, letter}: the letter as it was found, or empty; its member in the orders; the letter to
--        write
-- Reply  '1', or '0' with nothing done if the letter is another one by now
-- include: endings.lua

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
if type(stored) == 'table' then -- no hash
  local content = content_of(key)
  call('UNLINK', key)
  keep_as_record(content, key)
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
