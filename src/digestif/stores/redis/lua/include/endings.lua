-- include: timelines.lua
-- include: pages.lua
-- How digests end: in the history, and as dead letters.
local HISTORY_KEYS = 100 -- keys of records that an entry of the history has
local WITH_LETTER = STRIDE + 3 -- keys of a timeline and a dead letter

-- Note a digest that ended in the ring of the last ones, or in that of its tenant. The request says the size of the
-- rings, and of which timelines there is a tenant. The field 'rings' has the names of all tenants that have a ring: it
-- is written at the beginning of each round.
local function add_to_history(timeline, digest, outcome, request, keys, reason, receipt)
  local tenant = request.tenants and request.tenants[timeline]
  local number = next_of(tenant and 'ended:' .. tenant or 'ended')
  local place = number % request.ring
  if tenant then
    if place == 1 then
      local is_read, rings = pcall(cmsgpack.unpack, call('HGET', HISTORY, 'rings'))
      rings = is_read and type(rings) == 'table' and rings or {}
      rings[tenant] = true
      call('HSET', HISTORY, 'rings', cmsgpack.pack(rings))
    end
    place = place .. ':' .. tenant
  end
  call('HSET', HISTORY, place, cmsgpack.pack({
    number = number,
    id = digest.id,
    timeline = timeline,
    outcome = outcome,
    revision = digest.revision,
    attempts = digest.attempt or digest.attempts,
    records = digest.records,
    dropped = digest.dropped,
    opened = digest.opened,
    ended = now,
    reason = reason,
    keys = keys,
    receipt = receipt,
    left_out = digest.left_out,
  }))
end

local function letter_member(letter)
  return string.format('%016.0f', letter.number) .. letter.id
end

-- Write a dead letter beside its records.
local function write_letter(timeline, place, letter)
  letter.timeline = timeline.name
  letter.number = next_of('number')
  letter.buried = letter.buried or now
  call('HSET', KEYS[place], '', cmsgpack.pack(letter))
  call('ZADD', LETTERS, now, letter_member(letter))
  call('ZADD', timeline.dead or KEYS[timeline.place + DEAD], now, letter_member(letter))
end

local function letter_of(digest, id, records, dropped, reason)
  return {
    id = id,
    revision = digest.revision,
    attempts = digest.attempt,
    lapses = digest.lapses,
    reason = reason,
    records = records,
    dropped = dropped,
    opened = digest.opened,
    unknown = may_have_gone_out(digest) or nil,
  }
end

local function sound_letter(stored, name)
  local letter = cmsgpack.unpack(stored)
  local sound = letter.timeline == name
    and type(letter.id) == 'string'
    and letter.number < FAR
    and letter.records < FAR
    and letter.opened < FAR
    and letter.dropped < FAR
    and letter.revision < FAR
  return sound and letter
end

-- The dead letter whose keys are at `place`, if it is one of this timeline's and not damaged.
local function read_letter(place, name)
  local is_read, letter = pcall(sound_letter, try('HGET', KEYS[place], ''), name)
  return is_read and letter or nil
end

-- Whether the only record of a dead letter has lost its value.
local function lacks_its_value(letter, place)
  if letter.records == 1 then
    for _, record in each(batch_at(place)) do
      return not timestamp_place(record)
    end
  end
  return false
end

-- Take a dead letter out of the orders; its records stay.
local function unlist_letter(letter, dead)
  call('ZREM', LETTERS, letter_member(letter))
  call('ZREM', dead, letter_member(letter))
end

local function delete_letter(timeline, letter, place)
  unlist_letter(letter, KEYS[timeline.place + DEAD])
  delete_batch(batch_found_at(place))
end

-- Make a record a dead letter of its own.
local function bury_record(timeline, place, key, record, letter)
  call('HSET', KEYS[place], key, record)
  write_letter(timeline, place, letter)
end

-- Keep a value that is no hash as the payload of a single record at another key. It gets the next number, and does not
-- count as accepted: what was there before did.
local function keep_as_record(content, key)
  add_to('left', 1)
  call('HSET', key, 'raw', packed(add_to('accepted', 1), nil, struct.pack('>d', 0) .. content))
end

local function content_of(key)
  return call('TYPE', key).ok == 'string' and call('GET', key) or call('DUMP', key)
end
