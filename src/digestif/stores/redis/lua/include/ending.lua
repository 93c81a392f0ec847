-- include: timelines.lua
-- include: leasing.lua
-- include: placing.lua
-- include: paging.lua
-- What is told of a digest when it ends: in the history, and of a dead letter.
local HISTORY_KEYS = 100

-- Note a digest that ended in the ring of the last ones.
local function remember(timeline, digest, outcome, ring, keys, reason, receipt)
  local number = add_to('ended', 1)
  call('HSET', HISTORY, number % ring, cmsgpack.pack({
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
  }))
end

local function letter_member(letter)
  return string.format('%016.0f', letter.number) .. letter.id
end

-- Write a dead letter beside its records.
local function write_letter(timeline, place, letter)
  letter.timeline = timeline.name
  letter.number = next_number()
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
  }
end

-- The recipients who need not get a digest again, should it be replayed; before the names of others is a zero.
local function who_got(digest)
  local names = {}
  for _, name in ipairs(digest.served or {}) do
    if name:byte() ~= 0 then
      table.insert(names, name)
    end
  end
  return #names > 0 and names or nil
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

-- Take a dead letter out of the orders; its records are the caller's to move or erase.
local function unlist_letter(letter, dead)
  call('ZREM', LETTERS, letter_member(letter))
  call('ZREM', dead, letter_member(letter))
end
