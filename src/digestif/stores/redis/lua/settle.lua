#!lua flags=allow-oom
-- Merge and trim open digests, a page of records at most.
-- KEYS   12… the timelines
-- ARGV   4 {limit, requests}: records to move, over all; per timeline {token, capacity, merge}
-- Reply  empty
-- include: timelines.lua
-- include: leasing.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])

local function some_keys(batch, limit)
  local keys = {}
  if batch.large then
    for number, member in ipairs(call('ZRANGE', batch.ages, 0, limit - 1)) do
      keys[number] = key_of(member)
    end
    return keys
  end
  for key in each(batch) do
    if #keys < limit then
      table.insert(keys, key)
    end
  end
  return keys
end

local bytes = 0 -- that were moved

-- Move a page of the newer records into the digest; the later version of a record stays. The answer is how many.
local function merge(timeline, limit)
  local digest = timeline.slot.digest
  if not digest.merging or limit == 0 then
    return 0
  end
  local source, target = merging_of(timeline), digest_of(timeline)
  local keys, superseded, moved = some_keys(source, limit), 0, 0
  while moved < #keys and bytes < HEAVY do
    moved = moved + 1
    local record = pull(source, keys[moved])
    bytes = bytes + string.len(record)
    if put(target, keys[moved], record, true, digest.records) then
      superseded = superseded + 1
    end
  end
  digest.records = digest.records - superseded
  count('open', -superseded)
  count('superseded', superseded)
  if moved == #keys and moved < limit then
    digest.merging = nil
  end
  return moved
end

local function trim(timeline, capacity, limit)
  local digest = timeline.slot.digest
  if digest.merging then
    return 0
  end
  local dropped = math.min(excess(digest, capacity), limit)
  drop_oldest(digest_of(timeline), dropped)
  digest.records = digest.records - dropped
  digest.dropped = digest.dropped + dropped
  count('open', -dropped)
  count('dropped', dropped)
  if excess(digest, capacity) == 0 then
    digest.settled = nil -- otherwise whoever comes next goes on
  else
    digest.settled = false
  end
  return dropped
end

-- One page of: finish a merge that was begun, decide what this attempt carries, merge that, trim.
local function settle(timeline, capacity, with_newer, limit)
  local slot, work = timeline.slot, merge(timeline, limit)
  local digest = slot.digest
  if digest.deciding and not digest.merging then
    local pending = timeline.pending
    after_decision(slot, with_newer, pending)
    if with_newer then
      move_pending(timeline, MERGING)
      count('pending', -pending)
      count('open', pending)
    end
    work = work + merge(timeline, limit - work)
  end
  work = work + trim(timeline, capacity, limit - work)
  save_timeline(timeline)
  return work
end

local allowed = request.limit
for number, wanted in ipairs(request.requests) do
  local timeline = with_sound_batches(timeline_number(number))
  local slot = timeline.slot
  if allowed > 0 and slot.digest and is_held(slot, wanted[1], now) then
    allowed = allowed - settle(timeline, wanted[2] or nil, wanted[3], allowed)
  end
end
return answer('')
