#!lua flags=allow-oom
-- Remove the stored policy of a timeline, and move the timeline if it waits.
-- KEYS   12… the timeline
-- ARGV   4 {terms, cool-down} of the policy in the code
-- Reply  '1', or '0' if there is none
-- include: plans.lua

local terms, cool_down = unpack(cmsgpack.unpack(ARGV[4]))
local timeline = timeline_number(1)
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
if not slot.override then
  return answer('0')
end
slot.override = nil
plan(timeline, terms, cool_down)
save_timeline(timeline)
return answer('1')
