-- How a timeline goes to another store and comes from one: the twin of core/machine.py.
-- include: leasing.lua
local FOREVER = 253402300800000 -- what is on its way does not lapse
local LEAVING, COMING = 'leaving:', 'coming:' -- how tokens of timelines on their way begin

local function is_leaving(slot)
  return slot.token and string.sub(slot.token, 1, #LEAVING) == LEAVING
end

-- On its way: nobody opens it here. It takes its unfinished digest along, or else what is pending: then it answers
-- true.
local function after_departure(slot, now, token, pending)
  if slot.state == 'open' then
    after_lapse(slot)
  end
  slot.parked = slot.state
  local fresh = not slot.digest
  if fresh then
    cut(slot, slot.first or now, token, pending)
  end
  slot.state, slot.token, slot['until'], slot.alone = 'open', token, FOREVER, nil
  return fresh
end

local function unparked(slot)
  slot.state = slot.parked or 'waiting'
  slot.parked, slot.token, slot['until'], slot.alone = nil, nil, nil, nil
end

-- Idle, but with records: due at once.
local function awake(slot, now)
  if slot.state == 'idle' then
    slot.state = slot.paused and 'waiting' or 'ready'
    slot.at, slot.since, slot.rule, slot.was = now, now, 'first', nil
  end
end

-- It has arrived elsewhere: nothing is left here but records that came meanwhile.
local function after_departed(slot, now, pending)
  if pending == 0 then
    return { state = 'idle' }
  end
  slot.digest = nil
  unparked(slot)
  awake(slot, now)
  return slot
end

-- It does not leave after all. What it was to take along is an unfinished digest, and comes again as it is.
local function after_staying(slot, pending)
  if slot.digest.records == 0 then
    slot.digest = nil
  end
  unparked(slot)
  if slot.state == 'idle' and (slot.digest or pending > 0) then
    slot.state = 'waiting'
  end
end

-- A timeline comes from another store. If there is one of its name here, that goes on by its own times.
local function after_meeting(slot, travelled)
  local paused = slot.paused or travelled.paused or nil
  if slot.state == 'idle' then
    return {
      state = travelled.parked or 'waiting',
      at = travelled.at or 0,
      since = travelled.since or 0,
      last = travelled.last,
      iteration = travelled.iteration or 0,
      rule = travelled.rule,
      was = travelled.was,
      paused = paused,
    }
  end
  if travelled.last and (not slot.last or slot.last < travelled.last) then
    slot.last = travelled.last
  end
  slot.iteration = math.max(slot.iteration, travelled.iteration or 0)
  slot.paused = paused
  return slot
end

-- Records that were pending elsewhere are pending here; an urgent one pulls the due time forward.
local function after_joining(slot, now, dropped, first, deadline)
  slot.first = earlier(slot.first, first)
  slot.dropped = dropped > 0 and (slot.dropped or 0) + dropped or slot.dropped
  slot.deadline = deadline
  awake(slot, now)
  if slot.state == 'waiting' and not slot.digest and deadline and deadline < slot.at then
    slot.was, slot.at, slot.rule = slot.at, deadline, 'deadline'
  end
end

-- An unfinished digest comes from another store, and its retry with it: nobody opens it before it is whole.
local function after_boarding(slot, travelled, token)
  local digest = travelled.digest
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
    frozen = digest.frozen or nil,
    replayed = digest.replayed or nil,
    weighed = digest.weighed or nil,
    served = digest.served,
  }
  if digest.settled == false and not digest.merging then -- a merge ends on the way
    slot.digest.settled = false
  end
  slot.state, slot.parked, slot.token, slot['until'] = 'open', travelled.parked, token, FOREVER
  slot.at, slot.since = travelled.at or 0, travelled.since or 0
  slot.rule, slot.was = travelled.rule, travelled.was
end
