#!lua
-- Keep a document as the newest of its collection, and remove the oldest beyond the bounds.
-- KEYS   12 documents (hash)  13 order (zset)  14 index (zset)
-- ARGV   4 {collection, key, timeline, age, entries, bytes, replace, compares}: timeline '' is none; no age, no bytes:
--        unbounded
--        5 body  6 the body that is to be replaced, if `compares`
-- Reply  '1', or '0' with nothing done if the key is there, or has another body than the one that is to be replaced
-- include: documents.lua

local EVICTED = 1000
local request, body = cmsgpack.unpack(ARGV[4]), ARGV[5]
local collection, key, timeline = request.collection, request.key, request.timeline
local found = call('HGET', DOCUMENTS, key)
local is_there = found and struct.unpack('>d', found) > now
if request.compares then
  if not is_there or body_of(found) ~= ARGV[6] then
    return answer('0')
  end
elseif is_there and not request.replace then
  return answer('0')
end
local bytes, number = totals()
if found then
  bytes = bytes - remove_document(key, found, collection)
end
number = number + 1
local expires = request.age and now + request.age or math.huge
call('HSET', DOCUMENTS, key, struct.pack('>ddH', expires, now, string.len(timeline)) .. timeline .. body)
call('ZADD', ORDER, number, key)
if timeline ~= '' then
  call('ZADD', INDEX, 0, indexed(prefix_of(timeline, collection), number, key))
end
bytes = bytes + string.len(body)
local entries = call('ZCARD', ORDER)
for _ = 1, EVICTED do
  local oldest = call('ZRANGE', ORDER, 0, 0)[1]
  local stored = oldest and call('HGET', DOCUMENTS, oldest)
  local is_full = entries > request.entries or (request.bytes and bytes > request.bytes)
  if not stored or not (is_full or struct.unpack('>d', stored) <= now) then
    break
  end
  bytes, entries = bytes - remove_document(oldest, stored, collection), entries - 1
end
save_totals(bytes, number)
return answer('1')
