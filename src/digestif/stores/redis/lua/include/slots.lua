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

local function unpacked(stored)
  if not stored then
    return { state = 'idle', at = 0, since = 0, iteration = 0 }
  end
  return cmsgpack.unpack(string.sub(stored, HEAD + 1))
end

local function with_head(slot, pending)
  local joins = slot.state == 'ready' or slot.state == 'open' or (slot.state == 'waiting' and slot.digest)
  local head = joins and pending > 0 and not slot.deadline and (slot.large and 'l' or 'j') or ' '
  return head .. struct.pack('>i7', slot.expires or NEVER) .. cmsgpack.pack(slot)
end

local function load_timeline(place)
  local key = KEYS[place]
  local stored = call('HGET', key, '')
  local slot = unpacked(stored)
  return {
    place = place,
    key = key,
    name = string.sub(key, NAME),
    slot = slot,
    stored = stored and true,
    state = slot.state,
    marks = marks(slot),
    pending = call('HLEN', key) - (stored and 1 or 0),
  }
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
