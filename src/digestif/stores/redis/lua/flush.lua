#!lua flags=allow-oom
-- Make a waiting timeline ready.
-- KEYS   12 its hash
-- Reply  '1', or '0' in any other state
-- include: slots.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local timeline = load_timeline(TIMELINES)
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
if slot.state ~= 'waiting' then
  return answer('0')
end
slot.state, slot.was, slot.at, slot.since, slot.rule = 'ready', slot.at, now, now, 'flushed'
save_timeline(timeline)
return answer('1')
