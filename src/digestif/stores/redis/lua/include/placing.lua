-- Where a timeline is when a record arrives and when a digest ends: the twin of core/machine.py.
local function capped(at, rule, cap, cap_rule)
  if at <= cap then
    return at, rule
  end
  return cap, cap_rule
end

-- Set the due time; an urgent record or a full timeline may pull it earlier.
local function move(slot, at, rule, now, max_records, pending)
  if slot.deadline and slot.deadline < at then
    at, rule = slot.deadline, 'deadline'
  end
  if max_records and pending >= max_records and now < at then
    at, rule = now, 'count'
  end
  if rule ~= 'stays' then
    slot.was, slot.at, slot.rule = slot.at, at, rule
  end
end

local function awaken(slot, now, terms, pending)
  if terms.first_delay == 0 and not slot.paused then
    slot.state, slot.at, slot.since, slot.rule, slot.was = 'ready', now, now, 'first', nil
    return
  end
  slot.state, slot.at = 'waiting', now
  local rule = terms.first_delay > 0 and 'first_delay' or 'first'
  move(slot, now + terms.first_delay, rule, now, terms.max_records, pending)
end

local function postponed(slot, now, terms)
  if terms.quiet then
    return capped(math.max(slot.at, now + terms.quiet), 'quiet', slot.first + terms.maximum, 'quiet_cap')
  end
  if not slot.last or not terms.increment then
    return slot.at, 'stays'
  end
  return capped(slot.at + terms.increment, 'increment', slot.last + terms.maximum, 'cap')
end

-- A record arrived; `pending` and the slot's deadline and first arrival already count it.
local function after_add(slot, now, terms, pending)
  if slot.state == 'idle' then
    awaken(slot, now, terms, pending)
  elseif slot.state == 'waiting' and not slot.digest then
    local at, rule = postponed(slot, now, terms)
    move(slot, at, rule, now, terms.max_records, pending)
  end
end

-- Nothing is left of the timeline but its flag.
local function after_retirement(slot)
  return { state = 'idle', at = 0, since = 0, iteration = 0, paused = slot.paused }
end

-- The digest ended: cool down, or be idle again after an empty one.
local function after_completion(slot, now, cool_down, max_records, pending)
  local delivered = slot.digest.records > 0
  slot.digest, slot.token, slot['until'], slot.alone = nil, nil, nil, nil
  if not delivered and pending == 0 then
    return after_retirement(slot)
  end
  slot.state = 'waiting'
  slot.last = delivered and now or slot.last
  slot.iteration = delivered and slot.iteration + 1 or 0
  move(slot, now + cool_down, 'cool_down', now, max_records, pending)
  return slot
end
