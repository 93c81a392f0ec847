-- include: calls.lua
-- include: times.lua
-- include: measures.lua
-- A timeline is a hash: the slot in the field '', the pending records in fields of their own, which are never empty.
-- Its keys are declared together, the hash first. A slot is a table with the names of core/machine.py, stored behind a
-- head: whether a record may join it as it is, and its earliest expiry.
local HEAD = 8 -- bytes
local NAME = string.len(NAMES) - string.len('names') + string.len('t:') + 1 -- where its name begins in a timeline's key

local function marks(slot)
  local state, paused = slot.state, slot.paused
  local found = {}
  if state == 'waiting' then
    found.waiting = not paused and slot.at or nil
  elseif state == 'ready' then
    found.ready = not paused and slot.at or nil
    found.since = slot.since
  elseif state == 'open' then
    found[paused and 'paused' or 'leases'] = slot['until']
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

-- A slot as it is stored; nil, or an error, if it is damaged. What has another type fails to compare.
local function read_slot(stored)
  local slot = cmsgpack.unpack(string.sub(stored, HEAD + 1))
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
    and type(slot.alone or false) == 'boolean'
  if sound and digest then
    sound = type(digest.id) == 'string'
      and digest.records >= 0
      and digest.opened < FAR
      and digest.dropped < FAR
      and digest.revision < FAR
      and digest.attempt < FAR
      and digest.lapses < FAR
      and (digest.lapses_alone or 0) < FAR
      and (digest.expires or 0) < FAR
      and (not digest.served or type(digest.served) == 'table')
  end
  return sound and slot
end

local function with_head(slot, pending)
  local joins = slot.state == 'ready' or slot.state == 'open' or (slot.state == 'waiting' and slot.digest)
  local head = joins and pending > 0 and not slot.deadline and (slot.large and 'l' or 'j') or ' '
  return head .. struct.pack('>i7', slot.expires or NEVER) .. cmsgpack.pack(slot)
end

-- A timeline. One that is damaged has a state of its own, which no rule knows: its leases are held by nobody, it is
-- never due, and it must not be saved.
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
    marks = marks(slot),
    pending = type(stored) == 'table' and 0 or call('HLEN', key) - (stored and 1 or 0),
  }
end

-- The refusal to do anything about a damaged timeline; nil if it is sound.
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
    slot.placed = next_number()
  end
  local after = marks(slot)
  reorder(WAITING, timeline.name, before.waiting, after.waiting)
  reorder(READY, timeline.name, before.ready, after.ready)
  reorder(SINCE, timeline.name, before.since, after.since)
  reorder(LEASES, timeline.name, before.leases, after.leases)
  reorder(PAUSED, timeline.name, before.paused, after.paused)
  reorder(EXPIRING, timeline.name, before.expiring, after.expiring)
  woken = woken or (after.ready and not before.ready) or (after.waiting and after.waiting <= now)
  if slot.state == 'idle' and not slot.paused then
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

-- Let a timeline that was found in the schedule by mistake stand where its slot says. A damaged one stands nowhere, and
-- no record may join it.
local function put_in_place(timeline)
  local name, after = timeline.name, marks(timeline.slot)
  local orders = { waiting = WAITING, ready = READY, since = SINCE, leases = LEASES, paused = PAUSED, expiring = EXPIRING }
  for kind, order in pairs(orders) do
    local score = call('ZSCORE', order, name)
    reorder(order, name, score and tonumber(score), after[kind])
  end
  if timeline.state == 'damaged' then
    local stored = try('HGET', timeline.key, '')
    if type(stored) == 'string' and stored ~= '' then
      call('HSET', timeline.key, '', ' ' .. string.sub(stored, 2))
    end
  end
end
