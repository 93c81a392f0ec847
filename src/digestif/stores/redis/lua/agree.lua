#!lua flags=allow-oom
-- Let the slot and the orders of a timeline agree with its records.
-- KEYS   12… the timeline
-- Reply  '1', or '0' with nothing done if it is damaged
-- include: timelines.lua

local timeline = with_sound_batches(timeline_number(1))
local slot = timeline.slot
if timeline.state == 'damaged' then
  return answer('0')
end

-- Make the order by age anew if it lacks records. A batch without that order is left alone.
local function repair_order(batch, size)
  local ordered = call('ZCARD', batch.ages)
  if ordered ~= 0 and ordered ~= size then
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
