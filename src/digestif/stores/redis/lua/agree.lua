#!lua flags=allow-oom
-- Let the slot and the orders of a timeline agree with its records.
-- KEYS   12… the timeline
-- ARGV   4 whether the orders by age are made anew
-- Reply  '1', or '0' with nothing done if it is damaged
-- include: timelines.lua

local timeline = with_sound_batches(timeline_number(1))
local slot = timeline.slot
if timeline.state == 'damaged' then
  return answer('0')
end

-- Make the order by age anew, and remove from the other one what has no record. A batch without orders is left alone.
local anew = cmsgpack.unpack(ARGV[4])
local function repair_order(batch, size)
  for _, member in ipairs(anew and call('ZRANGE', batch.times, 0, -1) or {}) do
    if call('HEXISTS', batch.records, string.sub(member, 2)) == 0 then
      call('ZREM', batch.times, member)
    end
  end
  if anew and call('EXISTS', batch.ages) == 1 then
    call('UNLINK', batch.ages)
    batch.large = false
    if size > 0 then
      enlarge(batch)
    end
  end
end

local pending, digest, merging = pending_of(timeline), digest_of(timeline), merging_of(timeline)
repair_order(pending, timeline.pending)
repair_order(digest, call('HLEN', digest.records))
repair_order(merging, call('HLEN', merging.records))
slot.large = call('EXISTS', pending.ages) == 1 or nil
if slot.digest then
  slot.digest.records = call('HLEN', digest.records) + call('HLEN', merging.records)
  if slot.digest.records == 0 and slot.state ~= 'open' then
    slot.digest = nil
  end
end
if timeline.stored then
  save_timeline(timeline)
  call('ZADD', NAMES, 0, timeline.name)
else
  call('ZREM', NAMES, timeline.name)
end
put_in_place(timeline)
return answer('1')
