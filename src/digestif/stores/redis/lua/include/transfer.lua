-- include: machine.lua
-- The twin of core/transfer.py: how a timeline goes to another store and comes from one.
local FOREVER = 253402300800000 -- a timeline that is exported or imported does not lapse
local LEAVING, COMING = 'leaving:', 'coming:' -- how the tokens of exported and of imported timelines begin

local function is_leaving(slot)
  return slot.token and string.sub(slot.token, 1, #LEAVING) == LEAVING
end

-- The timeline is held for an export. It takes its unfinished digest along, or else its pending records: then the
-- answer is true.
local function after_begin_export(slot, now, token, pending)
  if slot.state == 'open' then
    after_lapse(slot)
  end
  local push = slot.push
  slot.parked = slot.state
  local fresh = not slot.digest
  if fresh then
    cut(slot, slot.first or now, token, pending)
  end
  slot.push = push
  slot.state, slot.token, slot['until'], slot.group, slot.alone = 'open', token, FOREVER, nil, nil
  return fresh
end

local function unparked(slot)
  slot.state = slot.parked or 'waiting'
  slot.parked, slot.token, slot['until'], slot.group, slot.alone, slot.push = nil, nil, nil, nil, nil, nil
end

-- An idle timeline with records is due at once.
local function awake(slot, now)
  if slot.state == 'idle' then
    slot.state = slot.paused and 'waiting' or 'ready'
    slot.at, slot.since, slot.rule, slot.was = now, now, 'first', nil
  end
end

local function since_of(override)
  return override and override.since
end

-- The parcel has arrived in the other store: what remains was added, paused or chosen during the export, and follows.
local function after_commit_export(slot, now, pending, exported)
  if pending == 0 then
    local retired = after_retirement(slot)
    retired.paused = not exported.paused and slot.paused or nil
    if since_of(slot.override) == since_of(exported.override) then
      retired.override = nil
    end
    return retired
  end
  slot.digest = nil
  unparked(slot)
  awake(slot, now)
  return slot
end

-- The timeline stays. Its parcel is an unfinished digest now, also if it was pending, and is delivered as it is.
local function after_abort_export(slot, pending)
  if slot.digest.records == 0 then
    slot.digest = nil
  end
  unparked(slot)
  if slot.state == 'idle' and (slot.digest or pending > 0) then
    slot.state = 'waiting'
  end
end

-- The override that was set last.
local function later(one, other)
  if not one or (other and one.since < other.since) then
    return other
  end
  return one
end

-- An urgent record pulls the due time of a waiting timeline earlier.
local function pulled_by_urgency(slot)
  local due = due_by_delays(slot)
  if slot.state == 'waiting' and not slot.digest and slot.deadline and slot.deadline < due then
    slot.was, slot.at, slot.rule, slot.by_delays = due, slot.deadline, 'deadline', nil
  end
end

-- Put a waiting timeline off to the due time that it has in the other store; a full one stays due.
local function cooling_down(slot, exported)
  local is_bound = slot.digest or slot.passes or slot.rule == 'count'
  if slot.state ~= 'waiting' or is_bound or exported.parked ~= 'waiting' then
    return
  end
  if (exported.by_delays or exported.at or 0) > due_by_delays(slot) then
    slot.at, slot.by_delays, slot.rule, slot.was = exported.at or 0, exported.by_delays, exported.rule, exported.was
    pulled_by_urgency(slot)
  end
end

-- A timeline comes from another store. One of its name that is here already goes on by its own times; records that were
-- added in the other store put that off as they would have here. If it was delivered in the other store later, it waits
-- for the cool-down that began there.
local function after_import_of_timeline(slot, exported)
  local paused = slot.paused or exported.paused or nil
  if slot.state == 'idle' then
    return {
      state = exported.parked or 'waiting',
      at = exported.at or 0,
      since = exported.since or 0,
      last = exported.last,
      iteration = exported.iteration or 0,
      rule = exported.rule,
      was = exported.was,
      by_delays = exported.by_delays,
      passes = exported.passes or nil,
      paused = paused,
      override = later(slot.override, exported.override),
    }
  end
  slot.iteration = math.max(slot.iteration, exported.iteration or 0)
  slot.paused = paused
  slot.override = later(slot.override, exported.override)
  if exported.push then
    after_push(slot, exported.push)
    pulled_by_urgency(slot)
  end
  if exported.last and (not slot.last or slot.last < exported.last) then
    slot.last = exported.last
    cooling_down(slot, exported)
  end
  return slot
end

-- Records that were pending in the other store are pending here; an urgent one pulls the due time forward.
local function after_import_of_pending(slot, now, dropped, first, deadline, heavy)
  slot.first = earlier(slot.first, first)
  slot.dropped = dropped > 0 and (slot.dropped or 0) + dropped or slot.dropped
  slot.deadline = deadline
  slot.heavy = slot.heavy or heavy or nil
  awake(slot, now)
  pulled_by_urgency(slot)
end

-- An unfinished digest comes from another store, and its retry with it. It is not opened before it is whole.
local function after_import_of_digest(slot, exported, token)
  local digest = exported.digest
  slot.digest = {
    id = digest.id,
    batch = 0,
    records = 0,
    opened = digest.opened,
    dropped = digest.dropped or 0,
    revision = digest.revision or 1,
    attempt = digest.attempt or 1,
    lapses = digest.lapses or 0,
    lapses_alone = digest.lapses_alone,
    largest = digest.largest,
    fresh = digest.fresh or nil,
    frozen = digest.frozen or nil,
    unknown = digest.unknown or nil,
    tried = digest.tried,
    replayed = digest.replayed or nil,
    weighed = digest.weighed or nil,
    heavy = digest.heavy or nil,
    served = digest.served,
  }
  if digest.settled == false and not digest.merging then -- an export ends a merge
    slot.digest.settled = false
  end
  slot.state, slot.parked, slot.token, slot['until'] = 'open', exported.parked, token, FOREVER
  slot.at, slot.since = exported.at or 0, exported.since or 0
  slot.rule, slot.was = exported.rule, exported.was
end

-- The digest is whole: the timeline has the state that it had in the other store.
local function after_import_completed(slot)
  unparked(slot)
end
