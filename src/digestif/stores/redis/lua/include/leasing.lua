-- How a timeline is opened and given back: the twin of core/machine.py.
-- include: times.lua

local LARGEST_PAYLOAD = 262208 -- bytes: a value, its codec and its timestamp
local LIGHT_RECORDS = 127 -- that are no more than the bytes that a digest carries by default, whatever they are

local function is_live(slot, now)
  return slot.state == 'open' and slot['until'] and now < slot['until']
end

local function is_held(slot, token, now)
  return slot.token == token and is_live(slot, now)
end

-- What stays of a digest whose attempt did not succeed: an empty one, which sends nothing, is forgotten. Of which some
-- recipients have got their part, it comes again exactly as it was: they would miss what joined it.
local function kept(digest, freeze, uncounted)
  if not digest or digest.records == 0 then
    return nil
  end
  if uncounted then
    digest.attempt = digest.attempt - 1
  end
  if freeze or (digest.served and #digest.served > 0) then
    digest.frozen, digest.deciding = true, nil
  end
  return digest
end

-- The lease ran out: nobody knows whether the digest went out, so it is frozen.
local function after_lapse(slot)
  slot.digest = kept(slot.digest, true)
  if slot.digest then
    slot.digest.lapses = slot.digest.lapses + 1
    if slot.alone then
      slot.digest.lapses_alone = (slot.digest.lapses_alone or 0) + 1
    end
  end
  slot.state, slot.token, slot['until'], slot.alone = 'waiting', nil, nil, nil
end

-- All pending records have left.
local function without_pending(slot)
  slot.dropped, slot.first, slot.deadline, slot.expires, slot.large = nil, nil, nil, nil, nil
end

local function cut(slot, now, fresh_id, pending)
  slot.digest = {
    id = fresh_id,
    batch = 0,
    records = pending,
    opened = now,
    dropped = slot.dropped or 0,
    revision = 1,
    attempt = 1,
    lapses = 0,
    expires = slot.expires,
  }
  if pending > LIGHT_RECORDS then
    slot.digest.settled = false
  end
  without_pending(slot)
end

-- Give a lease. The digest is the unfinished one, or else a new one that takes all pending records: then it answers
-- true. `alone` is noted for a digest that has lapsed before: if it lapses again, it is known to have been alone.
local function after_open(slot, now, token, lease, fresh_id, pending, alone)
  local since = slot.state == 'waiting' and now or slot.since
  if slot.state == 'open' then
    after_lapse(slot)
  end
  local fresh = not slot.digest
  if fresh then
    cut(slot, now, fresh_id, pending)
  else
    slot.digest.attempt = slot.digest.attempt + 1
    slot.digest.deciding = not slot.digest.frozen or nil
    slot.digest.counted, slot.digest.bytes, slot.digest.fitting = nil, nil, nil -- another limit may hold now
  end
  slot.state, slot.since, slot.token, slot['until'] = 'open', since, token, now + lease
  slot.alone = alone and slot.digest.lapses > 0 or nil
  return fresh
end

-- The attempt failed: at once ready again at the same times, or try again later.
local function after_failure(slot, later, freeze, uncounted)
  slot.digest = kept(slot.digest, freeze, uncounted)
  slot.token, slot['until'], slot.alone = nil, nil, nil
  if later then
    slot.state, slot.was, slot.at, slot.rule = 'waiting', slot.at, later, 'retry'
  else
    slot.state = 'ready'
  end
end

-- Decide what a digest carries that was opened again: with a merge, also what is pending now.
local function after_decision(slot, merge, pending)
  local digest = slot.digest
  digest.deciding = nil
  if not merge then
    return
  end
  digest.revision = digest.revision + 1
  digest.settled = false
  digest.weighed = nil
  digest.merging = pending > 0 and 0 or nil
  digest.records = digest.records + pending
  digest.dropped = digest.dropped + (slot.dropped or 0)
  digest.expires = earlier(digest.expires, slot.expires)
  without_pending(slot)
end

-- Whether nobody can have read the whole of it.
local function is_unread(digest)
  return digest.settled == false or (digest.attempt == 1 and not digest.frozen)
end

-- How many records are too many, while the digest may still be trimmed.
local function excess(digest, capacity)
  if is_unread(digest) and capacity and digest.records > capacity then
    return digest.records - capacity
  end
  return 0
end

-- Whether it may be too heavy, while it may still be trimmed.
local function must_be_weighed(digest, max_bytes)
  local heavy = max_bytes and digest.records * LARGEST_PAYLOAD > max_bytes
  return heavy and is_unread(digest) and not digest.weighed
end
