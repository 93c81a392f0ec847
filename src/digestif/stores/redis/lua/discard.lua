#!lua flags=allow-oom
-- Discard a dead letter.
-- KEYS   12… its timeline, then the letter: records, ages, times
-- ARGV   4 {ring, tenants}: as for add_to_history
-- Reply  '1', or '0' if there is no such letter
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local place = TIMELINES + STRIDE
local letter = read_letter(place, timeline.name)
if not letter then
  return answer('0')
end
local keys = newest_keys(batch_found_at(place), HISTORY_KEYS)
add_to_history(timeline.name, letter, 'discarded', request, keys, letter.reason)
delete_letter(timeline, letter, place)
count('dead', -letter.records)
count('deleted', letter.records)
return answer('1')
