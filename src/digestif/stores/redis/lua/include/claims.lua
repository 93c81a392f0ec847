-- include: losses.lua
-- include: pages.lua
-- Leases for timelines. A claim looks at each candidate again: it may have changed since it was found.
local retired, leases, damaged = 0, {}, {} -- the reply: how many became idle, the leases, numbers of damaged timelines
local candidates = {} -- and timelines of which the caller has to say whether they may be delivered
local pages = {} -- by lease: what `take` would answer, or false
local readable, room = 1000, HEAVY -- records, and bytes, that are read along; a claim from many partitions gives less

-- Count the pending records of a timeline before they become a digest. A small batch has no second list of its keys; but
-- where the timeline is the only one of its partition, the ledger says how many there should be.
local function look_for_losses(timeline)
  count_pending(timeline)
  if timeline.stored and call('ZCARD', NAMES) == 1 then
    local noted = tonumber(call('HGET', LEDGER, 'pending')) or 0
    local gone = noted + (tally.pending or 0) - timeline.pending
    if gone > 0 then
      lose(timeline, 'pending', gone)
    end
  end
end

-- The id of a new digest that is opened among others: it says nothing about those.
local function derived_id(token, name)
  return string.sub(redis.sha1hex(token .. '\0' .. name), 1, 20)
end

-- Give a lease for a timeline and save it; the answer is the lease, for the caller.
local function open(timeline, token, lease, fresh_id, group)
  look_for_losses(timeline)
  local slot, pending = timeline.slot, timeline.pending
  local iteration, at, lapsed = slot.iteration, slot.at, slot.state == 'open'
  if after_open(slot, now, token, lease, fresh_id, pending, group) then
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

-- The timeline of this number; nil if it is not wanted any more. That is usual if another worker was faster; only one
-- that is still in the order in which it was found is there by mistake.
local function candidate(number, is_wanted, first_order, second_order)
  local timeline = timeline_number(number)
  local is_sound = timeline.state ~= 'damaged'
  if is_sound and not is_wanted(timeline.slot) then
    if call('ZSCORE', first_order, timeline.name) or (second_order and call('ZSCORE', second_order, timeline.name)) then
      put_in_place(timeline)
    end
    return nil
  end
  if is_sound and has_sound_batches(timeline) then
    return timeline
  end
  timeline.slot, timeline.state = { state = 'damaged' }, 'damaged'
  table.insert(damaged, number)
  put_in_place(timeline)
  return nil
end

-- All of a new digest that is small, as `take` would answer it; false if it is not, or if enough was read.
local function whole_page(timeline, large)
  local digest = timeline.slot.digest
  if large or digest.settled == false or digest.records > readable or room <= 0 then
    return false
  end
  local flat, bytes = whole_of_small(batch_at(timeline.place + DIGEST))
  readable, room = readable - digest.records, room - bytes
  return { digest.revision, digest.dropped, 1, 0, flat }
end

-- Open a timeline, or answer it as a candidate; one without any record becomes idle instead.
local function claim(timeline, request, group)
  if timeline.pending == 0 then
    look_for_losses(timeline) -- it may be empty only because of them
  end
  if is_empty(timeline.slot, timeline.pending) then
    timeline.slot = after_retirement(timeline.slot)
    save_timeline(timeline)
    retired = retired + 1
  elseif must_be_admitted(timeline.slot, request.asks, timeline.pending) then
    table.insert(candidates, candidate_of(timeline))
  else
    local fresh_id = derived_id(request.token, timeline.name)
    local is_new, large = not timeline.slot.digest, timeline.slot.large
    table.insert(leases, open(timeline, request.token, request.lease, fresh_id, group))
    pages[#leases] = is_new and whole_page(timeline, large)
  end
end
