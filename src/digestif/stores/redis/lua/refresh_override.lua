#!lua flags=allow-oom
-- Replace the numbers of a stored policy. Nothing moves.
-- KEYS   12 the timeline's hash
-- ARGV   4 the override
-- Reply  '1', or '0' if another one is stored
-- include: timelines.lua

local override = cmsgpack.unpack(ARGV[4])
local timeline = load_timeline(TIMELINES)
if damage_of(timeline) then
  return damage_of(timeline)
end
local stored = timeline.slot.override
if not stored or stored.since ~= override.since then
  return answer('0')
end
timeline.slot.override = override
save_timeline(timeline)
return answer('1')
