#!lua flags=allow-oom
-- Store a policy for a timeline, and move the timeline if it waits.
-- KEYS   12… the timeline
-- ARGV   4 the override
-- Reply  '1'
-- include: plans.lua
-- include: off.lua

local override = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
slot.override = override

if override.off then
  empty(timeline)
else
  plan(timeline, override.terms, cool_down_of(override, slot.iteration))
end
save_timeline(timeline)
return answer('1')
