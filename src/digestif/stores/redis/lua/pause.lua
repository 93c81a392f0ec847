#!lua flags=allow-oom
-- Set or clear the flag that keeps a timeline from being delivered.
-- KEYS   12 its hash
-- ARGV   4 '1' to set, '0' to clear
-- Reply  '1', or '0' if it was so already
-- include: timelines.lua

local timeline = load_timeline(TIMELINES)
if damage_of(timeline) then
  return damage_of(timeline)
end
local paused = ARGV[4] == '1' or nil
if timeline.slot.paused == paused then
  return answer('0')
end
timeline.slot.paused = paused
save_timeline(timeline)
return answer('1')
