-- include: calls.lua
-- Records that were retracted or expired: what is remembered of a timeline is in the hash of the history, in the field
-- 't' and its name. A ring of names, in the fields 'r' and a place, bounds how many timelines are remembered.
local RETRACTED_KEYS = 20 -- of a timeline, the latest

local function sound_removals(stored)
  local found = cmsgpack.unpack(stored)
  return #found.retracted <= RETRACTED_KEYS and found.expired >= 0 and found.number >= 0 and found
end

local function removals_of(name)
  local is_read, found = pcall(sound_removals, call('HGET', HISTORY, 't' .. name))
  return is_read and found or { retracted = {}, expired = 0 }
end

-- Give a timeline the next place of the ring; the timeline that had it is forgotten.
local function place_in_ring(name, ring)
  local number = next_of('removals')
  local place = 'r' .. number % ring
  local forgotten = call('HGET', HISTORY, place)
  if forgotten then
    call('HDEL', HISTORY, 't' .. forgotten)
  end
  call('HSET', HISTORY, place, name)
  return number
end

local function save_removals(name, found, ring)
  found.number = found.number or place_in_ring(name, ring)
  call('HSET', HISTORY, 't' .. name, cmsgpack.pack(found))
end

local function note_retracted(name, key, ring)
  local found = removals_of(name)
  table.insert(found.retracted, { key, now })
  if #found.retracted > RETRACTED_KEYS then
    table.remove(found.retracted, 1)
  end
  save_removals(name, found, ring)
end

local function note_expired(name, many, ring)
  local found = removals_of(name)
  found.expired = found.expired + many
  found.first_expired, found.last_expired = found.first_expired or now, now
  save_removals(name, found, ring)
end

local function forget_removals(name, ring)
  local number = removals_of(name).number
  if number then
    call('HDEL', HISTORY, 't' .. name, 'r' .. number % ring)
  end
end
