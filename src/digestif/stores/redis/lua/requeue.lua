#!lua flags=allow-oom
-- Make records of a dead letter pending again: a page of the oldest, fewer if they are heavy.
-- KEYS   12… the timeline, then the letter: records, ages, times
-- ARGV   4 {terms, delay, force, limit}: of the policy in the code, its cool-down; how many records may move
-- Reply  {how many moved, how many capacity dropped, whether more are left, how many are lost}; {false} if there is no
--        such letter, {false, slot, letter} with nothing done if that is refused
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot, place = timeline.slot, TIMELINES + STRIDE
local letter = read_letter(place, timeline.name)
if not letter then
  return answer(cmsgpack.pack({ false }))
end
-- include: moving.lua
if lacks_its_value(letter, place) then
  return redis.error_reply('DIGESTIF_VALUELESS')
end
if refuse_requeue(slot, letter, request.force) then
  return answer(cmsgpack.pack({ false, slot, letter }))
end

local here = in_force(request.terms, slot.override)
local expires = here.ttl and now + here.ttl
local source, batch, before = sound_batch_at(place, letter.records), pending_of(timeline), timeline.pending

-- A record with another expiry; one that is damaged stays as it is.
local function renewed(record)
  local place = timestamp_place(record)
  return place and packed(arrival_of(record), expires, string.sub(record, place), is_nameless(record)) or record
end

-- Move a record, unless a version that arrived later is pending.
local superseded = 0
local function move_record(key, record)
  local known = call('HGET', batch.records, key)
  local is_latest = not known or arrival_of(known) < arrival_of(record)
  if is_latest then
    put(batch, key, renewed(record), slot.deadline, timeline.pending)
  end
  superseded = superseded + (known and 1 or 0)
  timeline.pending = timeline.pending + (known and 0 or 1)
end

-- How many keys only the order has: the values of so many records are gone.
local missing = source.large and call('ZCARD', source.ages) - (call('HLEN', KEYS[place]) - 1) or 0
local moved, bytes = 0, 0
for _, key in ipairs(oldest_keys(source, request.limit)) do
  local record = bytes < HEAVY and pull(source, key)
  if not record and missing > 0 and bytes < HEAVY and remove_from_orders(source, key, '') then
    record, missing = '', missing - 1
  end
  if record then
    move_record(key, record)
    moved, bytes = moved + 1, bytes + string.len(record)
  end
end

local dropped_before = letter.dropped
local more = call('HLEN', KEYS[place]) > 1 or (source.large and call('ZCARD', source.ages) > 0)
local lost = more and 0 or math.max(0, letter.records - moved)
count('dead', -lost)
count('lost', lost)
if more then
  letter.records = math.max(1, letter.records - moved)
  local revision = letter.revision + 1 -- under the old one other records may have gone out
  letter.dropped, letter.revision = 0, revision
  call('HSET', KEYS[place], '', cmsgpack.pack(letter))
else
  delete_letter(timeline, letter, place)
end
if moved == 0 then -- its records are lost, or their order is: the next call goes without
  call('UNLINK', source.ages, source.times)
  return answer(cmsgpack.pack({ 0, 0, more, lost }))
end

local dropped = math.min(math.max(timeline.pending - (here.capacity or math.huge), 0), 1000)
drop_oldest(batch, dropped)
timeline.pending = timeline.pending - dropped
local gone = dropped_before + dropped
slot.dropped = gone > 0 and (slot.dropped or 0) + gone or slot.dropped
slot.first = before == 0 and now or slot.first
slot.expires = earlier(slot.expires, expires)
slot.deadline = slot.deadline and earliest_deadline(batch)
slot.large = batch.large or nil
after_requeue(slot, now, request.terms, request.delay, timeline.pending)
save_timeline(timeline)
count('dead', -moved)
count('pending', timeline.pending - before)
count('superseded', superseded)
count('dropped', dropped)
return answer(cmsgpack.pack({ moved, dropped, more, lost }))
