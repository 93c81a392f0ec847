-- include: calls.lua
-- Documents of a collection: a hash from key to expiry, time, owners and body; an order of the keys by number; and for all
-- collections one index, by timeline and by ring. The owners are the timeline, and behind a byte that no text has the
-- ring, unless it is the one without a name. The hash also has the bytes of all bodies of each ring: in the field '',
-- with the last number, and in fields of that byte and the name of the ring.
local DOCUMENTS, ORDER, INDEX = KEYS[12], KEYS[13], KEYS[14]
local DOCUMENT_HEAD = 18 -- bytes: expiry, time, and the length of the owners, which follow
local NO_TEXT = '\255'
local NAMED = 2 ^ 52 -- added to the numbers of documents in named rings: they come last in the order

-- What the bodies of a ring weigh, and the last number of all; `save_totals` notes it.
local totals = {}
local function totals_of(ring)
  if not totals[ring] then
    local stored = call('HGET', DOCUMENTS, ring == '' and '' or NO_TEXT .. ring)
    local bytes, number = struct.unpack('>dd', stored or string.rep('\0', 16))
    totals[ring] = { bytes = bytes, number = number }
  end
  return totals[ring]
end

local function save_totals()
  if call('ZCARD', ORDER) == 0 then
    call('DEL', DOCUMENTS)
    return
  end
  for ring, total in pairs(totals) do
    if ring ~= '' and total.bytes == 0 then
      call('HDEL', DOCUMENTS, NO_TEXT .. ring)
    else
      local stored = struct.pack('>dd', total.bytes, total.number)
      call('HSET', DOCUMENTS, ring == '' and '' or NO_TEXT .. ring, stored)
    end
  end
end

local function prefix_of(timeline, collection)
  return struct.pack('>H', string.len(timeline)) .. timeline .. struct.pack('>B', string.len(collection)) .. collection
end

-- What members of the index for a ring begin with; no timeline is as long as that.
local function ring_prefix(ring, collection)
  return '\255\255' .. prefix_of(ring, collection)
end

-- The members of the index for a document.
local function indexed(key, number, timeline, ring, collection)
  local members, rest = {}, struct.pack('>I8', number) .. key
  if timeline ~= '' then
    table.insert(members, prefix_of(timeline, collection) .. rest)
  end
  if ring ~= '' then
    table.insert(members, ring_prefix(ring, collection) .. rest)
  end
  return members
end

local function body_of(stored)
  return string.sub(stored, DOCUMENT_HEAD + struct.unpack('>H', stored, 17) + 1)
end

local function remove_document(key, stored, collection)
  local size = struct.unpack('>H', stored, 17)
  local owners, ring = string.sub(stored, DOCUMENT_HEAD + 1, DOCUMENT_HEAD + size), ''
  local mark = string.find(owners, NO_TEXT, 1, true)
  if mark then
    owners, ring = string.sub(owners, 1, mark - 1), string.sub(owners, mark + 1)
  end
  if size > 0 then
    local number = call('ZSCORE', ORDER, key) % NAMED
    call('ZREM', INDEX, unpack(indexed(key, number, owners, ring, collection)))
  end
  call('HDEL', DOCUMENTS, key)
  call('ZREM', ORDER, key)
  local total = totals_of(ring)
  total.bytes = total.bytes - string.len(stored) + DOCUMENT_HEAD + size
end
