-- include: calls.lua
-- Documents of a collection: a hash from key to expiry, time, timeline and body, with the bytes of all bodies and the
-- last number in the field ''; an order of the keys by number; and for all collections one index by timeline.
local DOCUMENTS, ORDER, INDEX = KEYS[12], KEYS[13], KEYS[14]
local DOCUMENT_HEAD = 18 -- bytes: expiry, time, and the length of the timeline, which follows

local function totals()
  local stored = call('HGET', DOCUMENTS, '')
  if stored then
    return struct.unpack('>dd', stored)
  end
  return 0, 0
end

local function save_totals(bytes, number)
  if call('ZCARD', ORDER) == 0 then
    call('DEL', DOCUMENTS)
  else
    call('HSET', DOCUMENTS, '', struct.pack('>dd', bytes, number))
  end
end

-- The member of the index for a document; `prefix` names timeline and collection.
local function indexed(prefix, number, key)
  return prefix .. struct.pack('>I8', number) .. key
end

local function prefix_of(timeline, collection)
  return struct.pack('>H', string.len(timeline)) .. timeline .. struct.pack('>B', string.len(collection)) .. collection
end

local function body_of(stored)
  return string.sub(stored, DOCUMENT_HEAD + struct.unpack('>H', stored, 17) + 1)
end

-- Remove a document; the answer is how many bytes its body had.
local function remove_document(key, stored, collection)
  local size = struct.unpack('>H', stored, 17)
  if size > 0 then
    local timeline = string.sub(stored, DOCUMENT_HEAD + 1, DOCUMENT_HEAD + size)
    call('ZREM', INDEX, indexed(prefix_of(timeline, collection), call('ZSCORE', ORDER, key), key))
  end
  call('HDEL', DOCUMENTS, key)
  call('ZREM', ORDER, key)
  return string.len(stored) - DOCUMENT_HEAD - size
end
