#!lua flags=allow-oom
-- Let a timeline's slot, its orders and its places in the schedule agree with its records.
-- KEYS   12… the timeline
-- Reply  '1', or '0' with nothing done if it is damaged
-- include: timelines.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local timeline = with_sound_batches(timeline_number(1))
local slot = timeline.slot
if timeline.state == 'damaged' then
  return answer('0')
end

-- The order by age is made anew if it does not hold every record; of a batch that has none, nothing.
local function mend_order(batch, size)
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
mend_order(pending, timeline.pending)
mend_order(digest, call('HLEN', digest.records))
mend_order(merging, call('HLEN', merging.records))
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
