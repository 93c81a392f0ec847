#!lua
-- Keep a document as the newest of its collection, and remove the oldest beyond the bounds of its ring, or too old.
-- KEYS   12 documents (hash)  13 order (zset)  14 index (zset)
-- ARGV   4 {collection, key, timeline, ring, age, entries, bytes, replace, compares}: timeline '' is none; no ring: the
--        one without a name; no age, no bytes: unbounded
--        5 body  6 the body that is to be replaced, if `compares`
-- Reply  '1', or '0' with nothing done if the key is there, or has another body than the one that is to be replaced
-- include: documents.lua

local EVICTED = 1000
local RINGS = { '-inf', NAMED } -- where documents begin in the order: those of the ring without a name, and the others
local request, body = cmsgpack.unpack(ARGV[4]), ARGV[5]
local collection, key, timeline, ring = request.collection, request.key, request.timeline, request.ring or ''
local found = call('HGET', DOCUMENTS, key)
local is_there = found and struct.unpack('>d', found) > now

local function may_be_kept()
  if request.compares then
    return is_there and body_of(found) == ARGV[6]
  end
  return request.replace or not is_there
end

if not may_be_kept() then
  return answer('0')
end
if found then
  remove_document(key, found, collection)
end
local all, total = totals_of(''), totals_of(ring)
all.number = all.number + 1
total.bytes = total.bytes + string.len(body)
local expires = request.age and now + request.age or math.huge
local owners = ring == '' and timeline or timeline .. NO_TEXT .. ring
call('HSET', DOCUMENTS, key, struct.pack('>ddH', expires, now, string.len(owners)) .. owners .. body)
call('ZADD', ORDER, ring == '' and all.number or NAMED + all.number, key)
for _, member in ipairs(indexed(key, all.number, timeline, ring, collection)) do
  call('ZADD', INDEX, 0, member)
end

local first = ring_prefix(ring, collection)
local function entries_of_ring()
  if ring == '' then
    return call('ZCOUNT', ORDER, '-inf', NAMED)
  end
  return call('ZLEXCOUNT', INDEX, '[' .. first, '(' .. first .. NO_TEXT)
end

local function oldest_of_ring()
  if ring == '' then
    return call('ZRANGEBYSCORE', ORDER, '-inf', NAMED, 'LIMIT', 0, 1)[1]
  end
  local member = call('ZRANGEBYLEX', INDEX, '[' .. first, '(' .. first .. NO_TEXT, 'LIMIT', 0, 1)[1]
  return member and string.sub(member, string.len(first) + 9) -- behind the number
end

-- The oldest of all named rings or of the other one, if it is too old.
local function oldest_expired()
  for _, first_number in ipairs(RINGS) do
    local oldest = call('ZRANGEBYSCORE', ORDER, first_number, '+inf', 'LIMIT', 0, 1)[1]
    local stored = oldest and call('HGET', DOCUMENTS, oldest)
    if stored and struct.unpack('>d', stored) <= now then
      return oldest
    end
  end
end

local entries = entries_of_ring()
for _ = 1, EVICTED do
  local is_full = entries > request.entries or (request.bytes and total.bytes > request.bytes)
  local oldest
  if is_full then
    oldest = oldest_of_ring()
  else
    oldest = oldest_expired()
  end
  local stored = oldest and call('HGET', DOCUMENTS, oldest)
  if not stored then
    break
  end
  remove_document(oldest, stored, collection)
  entries = entries - 1
end
save_totals()
return answer('1')
