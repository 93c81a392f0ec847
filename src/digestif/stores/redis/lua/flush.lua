#!lua flags=allow-oom
-- Make a waiting timeline ready.
-- KEYS   12 its hash
-- Reply  '1', or '0' in any other state; an error while the store is being moved
-- include: timelines.lua

local timeline = load_timeline(TIMELINES)
if damage_of(timeline) then
  return damage_of(timeline)
end
-- include: moving.lua
if timeline.state ~= 'waiting' then
  return answer('0')
end
after_flush(timeline.slot, now)
save_timeline(timeline)
return answer('1')
