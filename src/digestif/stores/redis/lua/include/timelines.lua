-- include: calls.lua
-- include: machine.lua
-- include: batches.lua
-- A timeline is a hash: the slot in the field '', the pending records in fields of their own, which are never empty.
-- A slot is a table with the names of core/machine.py, stored behind a head: whether a record may join it as it is, its
-- earliest expiry, and perhaps capacity and ttl of an override. A script that needs no more declares the hash alone.
-- All keys of a timeline are three per batch (records, ages, times), for the pending records, those of the digest and
-- those that are being merged into it, and the order of its dead letters.
local STRIDE = 10 -- keys
local DIGEST, MERGING, DEAD = 3, 6, 9 -- offsets
local HEAD, OWN_HEAD = 8, 24 -- bytes
local NAME = string.len(NAMES) - string.len('names') + string.len('t:') + 1 -- where its name begins in a timeline's key

-- The scores of a timeline in the orders of its partition.
local function marks(slot)
  local state, paused = slot.state, slot.paused
  local found = {}
  if state == 'waiting' then
    found.waiting = not paused and slot.at or nil
  elseif state == 'ready' then
    found.ready = not paused and slot.at or nil
    found.since = slot.since
  elseif state == 'open' and not paused then
    found.leases = slot['until']
  end
  if paused then
    found.paused = state == 'open' and slot['until'] or UNLEASED
  end
  local digest = slot.digest
  if state ~= 'idle' then
    found.expiring = slot.expires
    if digest and state ~= 'open' and not digest.replayed then
      found.expiring = earlier(slot.expires, digest.expires)
    end
  end
  return found
end

local FAR = 2 ^ 62
local STATES = { idle = true, waiting = true, ready = true, open = true }

local function head_size(stored)
  local kind = string.byte(stored)
  return (kind == OWN or kind == OWN_LARGE) and OWN_HEAD or HEAD
end

-- Whether all numbers of an override are numbers; of the wrong type, they fail to compare.
local function is_sound_override(override)
  local terms = override.terms
  local sound = type(override.text) == 'string'
    and override.since < FAR
    and (terms.first_delay or 0) < FAR
    and (terms.increment or 0) < FAR
    and (terms.maximum or 0) < FAR
    and (terms.quiet or 0) < FAR
    and (terms.max_records or 1) < FAR
    and (terms.capacity or 1) < FAR
    and (terms.ttl or 0) < FAR
  if override.cool_downs then
    sound = sound and #override.cool_downs > 0 and math.max(0, unpack(override.cool_downs)) < FAR
  end
  if terms.openings then
    local numbers = terms.openings.numbers
    sound = sound and math.max(0, unpack(numbers)) < FAR and (not terms.openings.hours or #numbers % 2 == 0)
  end
  return sound
end

local function is_sound_push(push)
  return push.by < FAR and (push.silence or 0) < FAR and push.maximum < FAR
end

-- A slot as it is stored; nil, or an error, if it is damaged. A field of another type fails to compare.
local function read_slot(stored)
  local slot = cmsgpack.unpack(string.sub(stored, head_size(stored) + 1))
  local digest, is_open = slot.digest, slot.state == 'open'
  local sound = STATES[slot.state]
    and slot.at < FAR
    and slot.since < FAR
    and slot.iteration < FAR
    and (slot.expires or 0) < FAR
    and (slot.deadline or 0) < FAR
    and (slot.first or 0) < FAR
    and (slot.last or 0) < FAR
    and (slot.placed or 0) < FAR
    and (slot.dropped or 0) < FAR
    and (slot['until'] or 0) < FAR
    and (not is_open or (digest and slot['until'] and type(slot.token) == 'string'))
    and (is_open or not slot.token)
    and (slot.group or 0) < FAR
    and type(slot.alone or false) == 'boolean'
    and (slot.by_delays or 0) < FAR
    and type(slot.passes or false) == 'boolean'
    and (not slot.override or is_sound_override(slot.override))
    and (not slot.push or is_sound_push(slot.push))
  if sound and digest then
    sound = type(digest.id) == 'string'
      and digest.records >= 0
      and digest.opened < FAR
      and digest.dropped < FAR
      and digest.revision < FAR
      and digest.attempt < FAR
      and digest.lapses < FAR
      and (digest.lapses_alone or 0) < FAR
      and (digest.largest or 0) < FAR
      and (digest.expires or 0) < FAR
      and (not digest.served or type(digest.served) == 'table')
  end
  return sound and slot
end

local function with_head(slot, pending)
  local joins = slot.state == 'ready' or slot.state == 'open' or (slot.state == 'waiting' and slot.digest)
  local expiry, own = struct.pack('>i7', slot.expires or NEVER), slot.override
  if not joins or pending == 0 or slot.deadline or (own and own.off) then
    return ' ' .. expiry .. cmsgpack.pack(slot)
  elseif own then
    local limits = struct.pack('>dd', own.terms.capacity or math.huge, own.terms.ttl or 0 / 0)
    return string.char(slot.large and OWN_LARGE or OWN) .. expiry .. limits .. cmsgpack.pack(slot)
  end
  return string.char(slot.large and JOINS_LARGE or JOINS) .. expiry .. cmsgpack.pack(slot)
end

-- A timeline. A damaged one has a state of its own, which no rule knows: it has no lease, is never due, and must not be
-- saved.
local function load_timeline(place)
  local key = KEYS[place]
  local stored = try('HGET', key, '') -- an error, which is a table, if the key is no hash
  local is_read, slot = pcall(read_slot, stored)
  if not is_read or not slot then
    slot = stored and { state = 'damaged' } or { state = 'idle', at = 0, since = 0, iteration = 0 }
  end
  return {
    place = place,
    key = key,
    name = string.sub(key, NAME),
    slot = slot,
    stored = stored and true,
    state = slot.state,
    has_orders = slot.large or slot.deadline,
    marks = marks(slot),
    pending = type(stored) == 'table' and 0 or call('HLEN', key) - (stored and 1 or 0),
  }
end

-- The error that refuses a call for a damaged timeline; nil if it is sound.
local function damage_of(timeline)
  return timeline.state == 'damaged' and redis.error_reply('DIGESTIF_DAMAGED') or nil
end

local function reorder(order, name, before, after)
  if before == after then
    return
  end
  if after then
    call('ZADD', order, after, name)
  else
    call('ZREM', order, name)
  end
end

local function save_timeline(timeline)
  local slot, before = timeline.slot, timeline.marks
  if slot.state == 'waiting' and timeline.state ~= 'waiting' then
    slot.placed = next_of('number')
  end
  local after = marks(slot)
  reorder(WAITING, timeline.name, before.waiting, after.waiting)
  reorder(READY, timeline.name, before.ready, after.ready)
  reorder(SINCE, timeline.name, before.since, after.since)
  reorder(LEASES, timeline.name, before.leases, after.leases)
  reorder(PAUSED, timeline.name, before.paused, after.paused)
  reorder(EXPIRING, timeline.name, before.expiring, after.expiring)
  woken = woken or (after.ready and not before.ready) or (after.waiting and after.waiting <= now)
  if slot.state == 'idle' and not slot.paused and not slot.override then
    if timeline.stored then
      call('HDEL', timeline.key, '')
      call('ZREM', NAMES, timeline.name)
    end
    return
  end
  if not timeline.stored then
    call('ZADD', NAMES, 0, timeline.name)
  end
  call('HSET', timeline.key, '', with_head(slot, timeline.pending))
end

local function orders()
  return { waiting = WAITING, ready = READY, since = SINCE, leases = LEASES, paused = PAUSED, expiring = EXPIRING }
end

-- Let the orders agree with the slot of a timeline that was found there by mistake. A damaged one is in no order, and
-- no record may join it.
local function put_in_place(timeline)
  local name, after = timeline.name, marks(timeline.slot)
  for kind, order in pairs(orders()) do
    local score = call('ZSCORE', order, name)
    reorder(order, name, score and tonumber(score), after[kind])
  end
  if timeline.state == 'damaged' then
    local stored = try('HGET', timeline.key, '')
    if type(stored) == 'string' and stored ~= '' then
      call('HSET', timeline.key, '', ' ' .. string.sub(stored, 2, HEAD) .. string.sub(stored, head_size(stored) + 1))
    end
  end
end

local function timeline_number(number, stride)
  return load_timeline(TIMELINES + (number - 1) * (stride or STRIDE))
end

local function pending_of(timeline)
  return batch_at(timeline.place, timeline.slot.large)
end

local function digest_of(timeline)
  return batch_found_at(timeline.place + DIGEST)
end

local function merging_of(timeline)
  return batch_found_at(timeline.place + MERGING)
end

-- Whether a timeline is as the caller saw it: {state, at, until, since}, the last of its override; false for what is
-- not there.
local function is_as_seen(slot, seen)
  local state, at, lease_end, since = unpack(seen, 1, 4)
  return slot.state == state
    and slot.at == at
    and (slot['until'] or false) == lease_end
    and (slot.override and slot.override.since or false) == since
end

-- The pending records become another batch of the timeline; the slot stays.
local function move_pending(timeline, offset)
  if timeline.pending > 0 then
    rename(pending_of(timeline), timeline.place + offset, timeline.has_orders)
    call('HDEL', KEYS[timeline.place + offset], '')
    timeline.pending = 0
  end
end

local function delete_digest(timeline)
  delete_batch(batch_at(timeline.place + DIGEST))
  if timeline.slot.digest.merging then
    delete_batch(batch_at(timeline.place + MERGING))
  end
end

-- Note that pending records were taken out one by one.
local function subtract_pending(timeline, many)
  local slot = timeline.slot
  timeline.pending = timeline.pending - many
  if timeline.pending == 0 then
    if slot.large then -- what only the order has left is gone
      local batch = pending_of(timeline)
      local lost = call('ZCARD', batch.ages)
      count('pending', -lost)
      count('lost', lost)
      call('UNLINK', batch.ages, batch.times)
    end
    slot.first, slot.deadline, slot.expires, slot.large, slot.heavy = nil, nil, nil, nil, nil
  elseif slot.deadline then
    slot.deadline = earliest_deadline(pending_of(timeline))
  end
end

-- Whether the keys of its batches have the right types; keys that a sound timeline need not have are not looked at. Records
-- of a digest that the slot does not know would be overwritten by the next one.
local function has_sound_batches(timeline)
  local slot = timeline.slot
  if not slot.digest and call('EXISTS', KEYS[timeline.place + DIGEST]) == 1 then
    return false
  end
  for offset = (slot.large or slot.deadline) and 1 or 3, slot.digest and 8 or 2 do
    local kind = call('TYPE', KEYS[timeline.place + offset]).ok
    if kind ~= 'none' and kind ~= (offset % 3 == 0 and 'hash' or 'zset') then
      return false
    end
  end
  return true
end

-- The same timeline, taken for damaged if one of its batches has a key of the wrong type.
local function with_sound_batches(timeline)
  if timeline.state ~= 'damaged' and not has_sound_batches(timeline) then
    timeline.slot, timeline.state = { state = 'damaged' }, 'damaged'
  end
  return timeline
end
