-- The twin of core/machine.py: the same names, pure functions over a slot. They change the slot that they are given;
-- where they may answer another one, the caller goes on with that. `pending` is how many records are pending: scripts
-- count them, the slot does not.

local LARGEST_PAYLOAD = 1048640 -- bytes, of a heavy one
local USUAL_MAX_BYTES = 33554432 -- of a policy, by default
local UNREACHABLE = 0 -- the first byte of the name of a recipient who can never be reached

-- The earlier of two times; nil is never.
local function earlier(one, other)
  if not one or (other and other < one) then
    return other
  end
  return one
end

-- Terms

local FIRST_DELAY, INCREMENT, MAXIMUM = 1, 2, 4 -- of the delays that a call gave itself

-- The longest delay that a call may give: records must not expire while they wait.
local function longest_delay(ttl)
  return ttl and math.floor(ttl / 2) or math.huge
end

-- The terms of an add: delays given to the call, then the stored override, then the policy in the code. A given delay
-- that the ttl does not allow was checked before the policy changed: the override wins over it, and without an override
-- it is cut.
local function in_force(terms, override)
  local given = terms.given or 0
  if not override and given == 0 then
    return terms
  end
  local own = override and override.terms or terms
  local longest = longest_delay(own.ttl)
  local function given_one(bit, delay)
    if given % (2 * bit) < bit or not delay then
      return nil
    end
    return delay <= longest and delay or not override and longest or nil
  end
  local maximum = given_one(MAXIMUM, terms.maximum)
  return {
    first_delay = given_one(FIRST_DELAY, terms.first_delay) or own.first_delay or 0,
    increment = given_one(INCREMENT, terms.increment) or own.increment or override and maximum and 0 or nil,
    maximum = maximum or own.maximum or 0,
    quiet = own.quiet,
    max_records = own.max_records,
    capacity = own.capacity or math.huge,
    ttl = own.ttl,
    openings = own.openings,
  }
end

-- The cool-down of an override after the digest of this iteration.
local function cool_down_of(override, iteration)
  local cool_downs = override.cool_downs or { 0 }
  return cool_downs[math.min(iteration + 1, #cool_downs)]
end

-- Adding

local function capped(at, rule, cap, cap_rule)
  if at <= cap then
    return at, rule
  end
  return cap, cap_rule
end

-- The due time as the delays set it, before a window aligned it.
local function due_by_delays(slot)
  return slot.by_delays or slot.at
end

-- The first opening at or after a time, of single times also after the last delivery; nil if it is not known.
local function first_opening(openings, at, last)
  local numbers = openings.numbers
  if openings.hours then
    for place = 1, #numbers, 2 do
      if at < numbers[place + 1] then
        return math.max(at, numbers[place])
      end
    end
    return nil
  end
  for _, time in ipairs(numbers) do
    if time >= at and (not last or time > last) then
      return time
    end
  end
  return nil
end

-- Let the timeline wait for the calendar. Where its openings are not known, it stays due by the delays.
local function align(slot, openings)
  local opening, deadline = first_opening(openings, slot.at, slot.last), slot.deadline
  if openings.urgent and deadline and (not opening or deadline < opening) then
    slot.at, slot.rule, slot.passes = deadline, 'deadline', true
  elseif opening then
    slot.at, slot.by_delays = opening, slot.at
  end
end

-- Set the due time; an urgent record or a full timeline may pull it earlier; the window comes last.
local function move(slot, at, rule, now, max_records, pending, openings)
  if slot.deadline and slot.deadline < at then
    at, rule = slot.deadline, 'deadline'
  end
  if max_records and pending >= max_records and now < at then
    at, rule = now, 'count'
  end
  if rule ~= 'stays' then
    slot.was, slot.rule = due_by_delays(slot), rule
  end
  slot.at, slot.by_delays = at, nil
  if openings then
    align(slot, openings)
  end
end

local function awaken(slot, now, terms, pending, held)
  slot.state, slot.at, slot.by_delays = 'waiting', now, nil
  local rule = terms.first_delay > 0 and 'first_delay' or 'first'
  move(slot, now + terms.first_delay, rule, now, terms.max_records, pending, terms.openings)
  local is_known = not terms.openings or slot.by_delays or slot.passes
  if terms.first_delay == 0 and not held and slot.at <= now and is_known then
    slot.state, slot.at, slot.since, slot.rule, slot.was = 'ready', now, now, 'first', nil
  end
end

-- By how much records would have put a timeline off, if their store knew when it was delivered last.
local function further(push, now, terms)
  local silence = terms.quiet and now + terms.quiet or nil
  return { by = (push and push.by or 0) + (terms.increment or 0), silence = silence, maximum = terms.maximum }
end

-- Put a waiting timeline off by what its records would have in the store that they come from.
local function after_push(slot, push)
  if slot.state ~= 'waiting' or slot.digest or slot.passes or slot.by_delays then
    return
  end
  local at, maximum, by = slot.at, push.maximum, push.by
  if push.silence then
    local cap = slot.first and slot.first + maximum or push.silence
    slot.at, slot.rule = capped(math.max(at, push.silence), 'quiet', math.max(at, cap), 'quiet_cap')
    slot.was = at
  elseif by ~= 0 and slot.last then
    slot.at, slot.rule = capped(at + by, 'increment', slot.last + maximum, 'cap')
    slot.was = at
  end
end

-- Whether one of the calendar's times has come for the timeline: it is delivered then, however late.
local function has_come(slot, openings, now)
  return openings and not openings.hours and slot.by_delays and slot.at <= now
end

local function postponed(slot, now, terms)
  local at = due_by_delays(slot)
  if terms.quiet then
    return capped(math.max(at, now + terms.quiet), 'quiet', slot.first + terms.maximum, 'quiet_cap')
  end
  if not slot.last or not terms.increment then
    return at, 'stays'
  end
  return capped(at + terms.increment, 'increment', slot.last + terms.maximum, 'cap')
end

local function pulled_by_deadline(slot)
  if slot.deadline and slot.deadline < slot.at then
    slot.was, slot.at, slot.rule = slot.at, slot.deadline, 'deadline'
  end
end

-- Place a timeline when a record arrives; `pending` and the slot's deadline and first arrival already count it. `moving`
-- says that the store is being moved into another, which will deliver the record.
local function after_add(slot, now, terms, pending, moving)
  terms = in_force(terms, slot.override)
  if moving and not slot.last and (slot.state == 'idle' or slot.state == 'waiting') then
    slot.push = further(slot.push, now, terms)
  end
  if slot.state == 'idle' then
    awaken(slot, now, terms, pending, slot.paused or moving)
  elseif slot.state == 'waiting' and not slot.digest and not has_come(slot, terms.openings, now) then
    if slot.passes then
      pulled_by_deadline(slot)
    else
      local at, rule = postponed(slot, now, terms)
      move(slot, at, rule, now, terms.max_records, pending, terms.openings)
    end
  end
end

-- When a timeline is delivered next; nil if that is not known.
local function next_delivery(slot)
  local is_due = (slot.state == 'waiting' or slot.state == 'ready') and not slot.paused
  return is_due and slot.at or nil
end

-- Scheduling and maintenance

-- Keep the digest of an attempt that did not succeed, unless it is empty. Freeze one that some recipients already have:
-- merged records would never reach them.
local function kept(digest, freeze, uncounted)
  if not digest or digest.records == 0 then
    return nil
  end
  if uncounted then
    digest.attempt = digest.attempt - 1
  end
  if freeze or (digest.served and #digest.served > 0) then
    digest.frozen, digest.deciding, digest.fresh = true, nil, nil
  end
  return digest
end

-- A waiting timeline is due: it may be taken.
local function after_schedule(slot, now)
  slot.state, slot.since = 'ready', now
end

-- A timeline is ready for too long: its dispatch got lost, so it waits to be scheduled again.
local function after_maintenance(slot)
  slot.state = 'waiting'
end

-- The size of the group of suspects that an open digest is tried in; 0: other attempts may run beside it. `alone` is how
-- earlier releases stored a group of one.
local function tried_in(slot)
  return slot.group or (slot.alone and 1) or 0
end

-- The largest group in which a digest whose lease ran out may be tried next, half of the one that it was tried in; nil: any.
local function largest_group(lapsed)
  local group = tried_in(lapsed)
  return group > 0 and math.max(1, math.floor(group / 2)) or lapsed.digest.largest
end

-- The lease ran out. The digest may have gone out, so it is frozen. A lapse in a group of one counts against it.
local function after_lapse(slot)
  local largest = largest_group(slot)
  slot.digest = kept(slot.digest, true)
  if slot.digest then
    slot.digest.lapses, slot.digest.largest = slot.digest.lapses + 1, largest
    if tried_in(slot) == 1 then
      slot.digest.lapses_alone = (slot.digest.lapses_alone or 0) + 1
    end
  end
  slot.state, slot.token, slot['until'], slot.group, slot.alone = 'waiting', nil, nil, nil, nil
end

-- Leases

local function is_live(slot, now)
  return slot.state == 'open' and slot['until'] and now < slot['until']
end

local function is_held(slot, token, now)
  return slot.token == token and is_live(slot, now)
end

-- Whether the timeline is open under a lease with exactly this end, other than that of a move.
local function is_leased_until(slot, seen)
  return slot.state == 'open' and not slot.parked and slot['until'] == seen
end

local function after_early_end(slot, now)
  slot['until'] = now
end

local function is_empty(slot, pending)
  return pending == 0 and (not slot.digest or slot.digest.records == 0)
end

-- Whether the caller has to say if the timeline may be delivered: it wants to, or a stored window decides.
-- One without any record delivers nothing.
local function must_be_admitted(slot, asks, pending)
  local has_window = slot.override and slot.override.terms.openings
  return (asks or has_window) and not is_empty(slot, pending) and true or false
end

-- Whether no other caller was quicker: it is not paused or open, and has records.
local function may_be_admitted(slot, now, pending)
  return not (slot.paused or slot.parked or is_live(slot, now) or is_empty(slot, pending))
end

-- It may not be delivered yet: its records stay pending, and its time by the delays is unchanged.
local function after_admission_refused(slot, later)
  if slot.state == 'open' then
    after_lapse(slot)
  end
  slot.state, slot.by_delays, slot.at = 'waiting', due_by_delays(slot), later
end

-- Whether the timeline may not be opened; Python tells why.
local function refuse_opening(slot, now)
  return slot.parked or slot.paused or is_live(slot, now) or (slot.state ~= 'ready' and slot.state ~= 'open')
end

-- Whether the lease has lapsed and no other attempt began since.
local function is_suspect(slot, now)
  return slot.state == 'open' and slot['until'] <= now
end

-- The size of a group of suspects, for a worker that tries up to `size` together: the first to lapse decides.
local function group_size(first, size)
  return math.min(size, largest_group(first) or size)
end

-- Whether a suspect may be tried in a group of this size.
local function may_join(suspect, size)
  return group_size(suspect, size) == size
end

-- All pending records have left.
local function without_pending(slot)
  slot.dropped, slot.first, slot.deadline, slot.expires, slot.large, slot.push = nil, nil, nil, nil, nil, nil
  slot.heavy = nil
end

-- Whether so many records can be larger than `max_bytes`, as far as is known without looking at them.
local function may_exceed(records, max_bytes, heavy)
  return records * (heavy and LARGEST_PAYLOAD or USUAL_PAYLOAD) > max_bytes
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
    fresh = true,
    heavy = slot.heavy,
  }
  if may_exceed(pending, USUAL_MAX_BYTES, slot.heavy) then
    slot.digest.settled = false
  end
  without_pending(slot)
end

-- Give a lease. The digest is the unfinished one, or else a new one that takes all pending records: then the answer is
-- true. The size of its group is noted for a digest that has lapsed before: its first lapse proves nothing.
local function after_open(slot, now, token, lease, fresh_id, pending, group)
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
  slot.group, slot.alone = group and group > 0 and slot.digest.lapses > 0 and group or nil, nil
  return fresh
end

-- Decide what a digest carries that was opened again: with a merge, also what is pending now. Without anything that
-- joins it the digest stays as it is, under its idempotency key. Returns whether pending records join.
local function after_decision(slot, merge, pending)
  local digest = slot.digest
  digest.deciding = nil
  if not merge or (pending == 0 and (slot.dropped or 0) == 0) then
    return false
  end
  digest.fresh = true
  digest.revision = digest.revision + 1
  digest.settled = false
  digest.weighed = nil
  digest.merging = pending > 0 and 0 or nil
  digest.records = digest.records + pending
  digest.dropped = digest.dropped + (slot.dropped or 0)
  digest.heavy = digest.heavy or slot.heavy
  digest.expires = earlier(digest.expires, slot.expires)
  without_pending(slot)
  return true
end

-- Whether no attempt can have read the whole digest.
local function is_unread(digest)
  return digest.settled == false or digest.fresh
end

-- How many records are too many, while the digest may still be trimmed.
local function excess(digest, capacity)
  if is_unread(digest) and capacity and digest.records > capacity then
    return digest.records - capacity
  end
  return 0
end

-- Whether the digest may be too heavy, while it may still be trimmed.
local function must_be_weighed(digest, max_bytes)
  local is_heavy = max_bytes and may_exceed(digest.records, max_bytes, digest.heavy)
  return is_heavy and is_unread(digest) and not digest.weighed
end

-- The oldest records of a heavy digest were dropped; if it fits now, no more are.
local function after_weighing(digest, dropped, fits)
  digest.weighed = fits or nil
  digest.records, digest.dropped = digest.records - dropped, digest.dropped + dropped
end

-- Only the flag and the override are left of the timeline.
local function after_retirement(slot)
  return { state = 'idle', at = 0, since = 0, iteration = 0, paused = slot.paused, override = slot.override }
end

-- How a timeline goes on: by a cool-down given to the call, by its override, or by the policy in the code.
local function plan_in_force(plan, slot)
  local override, cool_down = slot.override, plan.cool_down
  if not override then
    plan.cool_down = plan.given and math.min(cool_down, longest_delay(plan.ttl)) or cool_down
    return plan
  end
  local is_given = plan.given and cool_down <= longest_delay(override.terms.ttl)
  return {
    cool_down = is_given and cool_down or cool_down_of(override, slot.iteration),
    max_records = override.terms.max_records,
    openings = override.terms.openings,
  }
end

-- The digest ended: cool down, or be idle again after an empty one.
local function after_completion(slot, now, plan, pending)
  local delivered = slot.digest.records > 0
  slot.digest, slot.token, slot['until'], slot.group, slot.passes = nil, nil, nil, nil, nil
  if not delivered and pending == 0 then
    return after_retirement(slot)
  end
  slot.state = 'waiting'
  slot.last = delivered and now or slot.last
  slot.iteration = delivered and slot.iteration + 1 or 0
  plan = plan_in_force(plan, slot)
  move(slot, now + plan.cool_down, 'cool_down', now, plan.max_records, pending, plan.openings)
  return slot
end

-- The attempt failed: the timeline is ready again, at the same times. A release has freeze, counted, unknown, tried,
-- read.
local function after_failure(slot, release)
  slot.digest = kept(slot.digest, release.freeze, not release.counted)
  if slot.digest then
    slot.digest.unknown = slot.digest.unknown or release.unknown or nil
    slot.digest.tried = release.tried
    slot.digest.fresh = slot.digest.fresh and not release.read or nil
  end
  slot.state, slot.token, slot['until'], slot.group = 'ready', nil, nil, nil
end

-- The attempt failed: the next one comes at a later time.
local function after_release(slot, release)
  after_failure(slot, release)
  slot.state, slot.was, slot.at, slot.rule, slot.by_delays = 'waiting', slot.at, release['until'], 'retry', nil
end

-- Policies

-- The latest opening from now on that begins before a time; nil if there is none.
local function last_opening(openings, now, before)
  local numbers, found = openings.numbers, nil
  for place = 1, #numbers, openings.hours and 2 or 1 do
    local start = openings.hours and math.max(now, numbers[place]) or numbers[place]
    local is_ahead = openings.hours and now < numbers[place + 1] or not openings.hours and now <= start
    if is_ahead and start < before then
      found = start
    end
  end
  return found
end

-- A time that is later than now, because the clock was set back, counts as now.
local function not_after(time, now)
  return time and math.min(time, now)
end

-- Another policy holds from now on: place a waiting timeline as if it had held before.
local function after_plan(slot, now, terms, cool_down, pending)
  if slot.state ~= 'waiting' or slot.digest or slot.passes then
    return
  end
  slot.last, slot.first = not_after(slot.last, now), not_after(slot.first, now)
  local at, rule = due_by_delays(slot), slot.rule
  if slot.last then
    at, rule = slot.last + cool_down, 'cool_down'
  elseif slot.first then
    local first_delay = terms.first_delay or 0
    at, rule = slot.first + first_delay, first_delay > 0 and 'first_delay' or 'first'
  end
  if at < now then
    at, rule = now, 'planned'
  end
  move(slot, at, rule, now, terms.max_records, pending, terms.openings)
  slot.at = math.max(slot.at, now)
  if terms.openings and slot.expires and slot.at >= slot.expires then
    local sooner = last_opening(terms.openings, now, slot.expires)
    if sooner then
      slot.at, slot.by_delays = sooner, sooner
    else
      slot.at, slot.by_delays, slot.passes = now, nil, true
    end
  end
end

-- On request

-- Deliver now.
local function after_flush(slot, now)
  slot.state, slot.was, slot.at, slot.since, slot.rule = 'ready', slot.at, now, now, 'flushed'
  slot.by_delays, slot.passes = nil, true
end

-- A dead letter becomes the unfinished digest again, exactly as it was, with its attempts counted anew.
local function after_replay(slot, digest, now)
  digest.attempt, digest.lapses, digest.lapses_alone, digest.largest = 0, 0, nil, nil
  digest.frozen, digest.weighed, digest.replayed, digest.tried = true, true, true, nil
  slot.digest = digest
  slot.was = slot.state ~= 'idle' and slot.at or nil
  slot.state, slot.at, slot.since, slot.rule = 'ready', now, now, 'replayed'
  slot.by_delays, slot.passes = nil, true
end

-- Whether a message with these records may have reached its receiver.
local function may_have_gone_out(digest)
  return digest.unknown or digest.lapses > 0
end

-- Whether people switched the timeline off.
local function is_off(slot)
  return slot.override and slot.override.off
end

-- Whether the records of a dead letter may not be pending again; Python tells why.
local function refuse_requeue(slot, letter, force)
  if slot.parked or is_off(slot) then
    return true
  end
  return not force and (may_have_gone_out(letter) or (letter.served and #letter.served > 0))
end

-- Records of a dead letter are pending again, of unknown sizes. An idle timeline waits for its cool-down, so that other
-- letters can join; any other keeps its time, except that enough records make it due, as at an add.
local function after_requeue(slot, now, terms, delay, pending)
  local own = slot.override
  terms = in_force(terms, own)
  slot.heavy = true
  if slot.state == 'idle' then
    slot.state, slot.at, slot.by_delays = 'waiting', now, nil
    local cool_down = own and cool_down_of(own, slot.iteration) or delay
    move(slot, now + cool_down, 'requeued', now, terms.max_records, pending, terms.openings)
    return
  end
  local is_full = terms.max_records and pending >= terms.max_records
  if slot.state ~= 'waiting' or slot.digest or slot.passes or not is_full then
    return
  end
  if due_by_delays(slot) > now then
    move(slot, now, 'count', now, nil, pending, terms.openings)
  end
end

-- The recipients who need not get the digest again, should it be replayed.
local function who_got(digest)
  local names = {}
  for _, name in ipairs(digest.served or {}) do
    if name:byte() ~= UNREACHABLE then
      table.insert(names, name)
    end
  end
  return names
end

-- An unfinished digest lost records. If an earlier attempt may have carried them, it gets another revision, once in the
-- calls of one request: then `raised` says that a call before did it.
local function after_losing(digest, lost, raised)
  digest.records = digest.records - lost
  if lost > 0 and not digest.fresh and not raised then
    digest.revision = digest.revision + 1
  end
end

-- All records were deleted, except those of an open digest: the timeline is idle, unless it cools down.
local function after_switched_off(slot)
  local cools_down = slot.state == 'waiting' and slot.last
  return (slot.state == 'open' or cools_down) and slot or after_retirement(slot)
end

-- Records expired. A digest that lost its last one vanishes, and a due timeline without any record is idle.
local function after_expiry(slot, now, pending)
  if slot.digest and slot.digest.records == 0 and slot.state ~= 'open' then
    slot.digest = nil
  end
  local is_due = slot.state == 'ready' or (slot.state == 'waiting' and slot.at <= now)
  return is_due and is_empty(slot, pending) and after_retirement(slot) or slot
end
