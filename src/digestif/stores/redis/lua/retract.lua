#!lua flags=allow-oom
-- Retract a pending record.
-- KEYS   12… the timeline
-- ARGV   4 the record's key  5 {ring, tenants}: as for note_retracted
-- Reply  '1' if there was one, else '0'
-- include: timelines.lua
-- include: removals.lua

local timeline = with_sound_batches(timeline_number(1))
if damage_of(timeline) then
  return damage_of(timeline)
end
local key = ARGV[4]
local record = key ~= '' and pull(pending_of(timeline), key)
if not record then
  return answer('0')
end
count('pending', -1)
count('deleted', 1)
note_retracted(timeline.name, key, cmsgpack.unpack(ARGV[5]))
subtract_pending(timeline, 1)
save_timeline(timeline)
return answer('1')
