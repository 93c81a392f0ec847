#!lua flags=allow-oom
-- Merge, count, trim and weigh open digests, a page of records at most.
-- KEYS   12… the timelines
-- ARGV   4 {limit, requests}: records to move, over all; per timeline {token, capacity, merge, max_bytes}
-- Reply  the names of timelines whose digests have lost records, and how many
-- include: losses.lua
-- include: pages.lua

local request = cmsgpack.unpack(ARGV[4])
local WEIGHED_RECORDS = 1000 -- whose lengths a call looks at, fewer if they are heavy: about a millisecond
local NAME_LENGTH = string.len('json/1 ')

local function some_keys(batch, limit)
  if batch.large then
    return oldest_of_large(batch, limit)
  end
  local keys = {}
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
    if not record then -- its value is gone, and only the order has it
      remove_from_orders(source, keys[moved], '')
      record = ''
    end
    bytes = bytes + string.len(record)
    local known = call('HGET', target.records, keys[moved])
    superseded = superseded + (known and 1 or 0)
    local is_latest = not known or arrival_of(known) < arrival_of(record)
    if is_latest then
      put(target, keys[moved], record, true, digest.records)
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

local function drop(timeline, dropped)
  drop_oldest(digest_of(timeline), dropped)
  count('open', -dropped)
  count('dropped', dropped)
end

local function payload_length(record)
  local place = timestamp_place(record)
  return place and string.len(record) - place - 7 + (is_nameless(record) and NAME_LENGTH or 0) or 0
end

-- The lengths of the payloads of the newest records, after the first `counted` ones.
local function lengths_after(batch, counted)
  local found, bytes = {}, 0
  if batch.large then
    for number, member in ipairs(call('ZREVRANGE', batch.ages, counted, counted + WEIGHED_RECORDS - 1)) do
      local length = payload_length(call('HGET', batch.records, key_of(member)) or '')
      found[number], bytes = length, bytes + length
      if bytes > HEAVY then
        break
      end
    end
    return found
  end
  for number, item in ipairs(newest_first(batch)) do
    if number > counted then
      table.insert(found, payload_length(item.record))
    end
  end
  return found
end

-- Look at the lengths of a page of records; once it is known how many of them the digest may carry, note that.
local function count_fitting(digest, batch, max_bytes)
  local lengths = lengths_after(batch, digest.counted or 0)
  local counted, bytes = digest.counted or 0, digest.bytes or 0
  for _, length in ipairs(lengths) do
    bytes = bytes + length
    if bytes > max_bytes then
      digest.fitting = math.max(counted, 1)
      return
    end
    counted = counted + 1
  end
  digest.counted, digest.bytes = counted, bytes
  if counted >= digest.records or #lengths == 0 then
    digest.fitting = digest.records
  end
end

-- Drop the oldest records that make a digest too heavy: a page of records is looked at, and a page dropped.
local function weigh(timeline, max_bytes, limit)
  local digest = timeline.slot.digest
  if not must_be_weighed(digest, max_bytes) then
    return 0
  end
  if not digest.fitting then
    count_fitting(digest, digest_of(timeline), max_bytes)
  end
  if not digest.fitting then
    return 1
  end
  local heavy = digest.records - digest.fitting
  local dropped = math.min(heavy, limit)
  drop(timeline, dropped)
  after_weighing(digest, dropped, dropped == heavy)
  if digest.weighed then
    digest.fitting, digest.counted, digest.bytes = nil, nil, nil
  end
  return dropped
end

-- Once it is merged: drop the oldest records above capacity, then those that make it too heavy.
local function trim(timeline, capacity, max_bytes, limit)
  local digest = timeline.slot.digest
  if digest.merging then
    return 0
  end
  local dropped = math.min(excess(digest, capacity), limit)
  drop(timeline, dropped)
  digest.records, digest.dropped = digest.records - dropped, digest.dropped + dropped
  if excess(digest, capacity) == 0 then
    dropped = dropped + weigh(timeline, max_bytes, limit - dropped)
  end
  if excess(digest, capacity) == 0 and not must_be_weighed(digest, max_bytes) then
    digest.settled = nil
  else
    digest.settled = false -- the next call goes on
  end
  return dropped
end

-- Finish a merge that was begun, decide what this attempt carries, merge that, count, trim and weigh: one page of it.
local function prepare(timeline, capacity, with_newer, max_bytes, limit)
  local slot, work = timeline.slot, merge(timeline, limit)
  local digest = slot.digest
  if digest.deciding and not digest.merging then
    count_pending(timeline)
    local pending = timeline.pending
    if after_decision(slot, with_newer, pending) then
      move_pending(timeline, MERGING)
      count('pending', -pending)
      count('open', pending)
    end
    work = work + merge(timeline, limit - work)
  end
  recount(timeline) -- to trim by a wrong number would never end
  work = work + trim(timeline, capacity, max_bytes, limit - work)
  save_timeline(timeline)
  return work
end

local allowed = request.limit
for number, wanted in ipairs(request.requests) do
  local timeline = with_sound_batches(timeline_number(number))
  local slot = timeline.slot
  local token, capacity, with_newer, max_bytes = unpack(wanted, 1, 4)
  if allowed > 0 and slot.digest and is_held(slot, token, now) then
    allowed = allowed - prepare(timeline, capacity or nil, with_newer, max_bytes or nil, allowed)
  end
end
return answer(cmsgpack.pack(losses))
