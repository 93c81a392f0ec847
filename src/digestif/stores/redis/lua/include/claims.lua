-- include: timelines.lua
-- Leases for timelines. A claim looks at each candidate again: it may have changed since it was found.
local retired, leases, damaged = 0, {}, {} -- the reply: how many became idle, the leases, numbers of damaged timelines
local candidates = {} -- and timelines of which the caller has to say whether they may be delivered

-- Give a lease for a timeline and save it; the answer is the lease, for the caller.
local function open(timeline, token, lease, fresh_id, alone)
  local slot, pending = timeline.slot, timeline.pending
  local iteration, at, lapsed = slot.iteration, slot.at, slot.state == 'open'
  if after_open(slot, now, token, lease, fresh_id, pending, alone) then
    move_pending(timeline, DIGEST)
    count('pending', -pending)
    count('open', pending)
  end
  save_timeline(timeline)
  local digest = slot.digest
  return {
    timeline.name,
    slot['until'],
    digest.id,
    digest.attempt,
    digest.lapses,
    iteration,
    at,
    lapsed,
    digest.lapses_alone or 0,
    slot.override or false,
    slot.passes or false,
    digest.tried or false,
    digest.frozen or false,
  }
end

-- A timeline as the caller needs it to decide: its name, slot and number of pending records.
local function candidate_of(timeline)
  return { timeline.name, timeline.slot, timeline.pending }
end

-- The timeline of this number; nil if it is not wanted any more.
local function candidate(number, is_wanted)
  local timeline = with_sound_batches(timeline_number(number))
  if timeline.state == 'damaged' then
    table.insert(damaged, number)
  end
  if is_wanted(timeline.slot) then
    return timeline
  end
  put_in_place(timeline)
  return nil
end

-- Open a timeline, or answer it as a candidate; one without any record becomes idle instead.
local function claim(timeline, request, alone)
  if is_empty(timeline.slot, timeline.pending) then
    timeline.slot = after_retirement(timeline.slot)
    save_timeline(timeline)
    retired = retired + 1
  elseif must_be_admitted(timeline.slot, request.asks, timeline.pending) then
    table.insert(candidates, candidate_of(timeline))
  else
    local fresh_id = request.token .. '-' .. (request.first + #leases)
    table.insert(leases, open(timeline, request.token, request.lease, fresh_id, alone))
  end
end
