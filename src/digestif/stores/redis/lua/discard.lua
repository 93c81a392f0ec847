#!lua flags=allow-oom
-- Give up a dead letter.
-- KEYS   12… its timeline, then the letter: records, ages, times
-- ARGV   4 {ring}: the size of the history
-- Reply  '1', or '0' if there is no such letter
-- include: ending.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local place = TIMELINES + STRIDE
local letter = read_letter(place, timeline.name)
if not letter then
  return answer('0')
end
local batch = batch_found_at(place)
remember(timeline.name, letter, 'discarded', request.ring, newest_keys(batch, HISTORY_KEYS), letter.reason)
unlist_letter(letter, KEYS[timeline.place + DEAD])
erase(batch)
count('dead', -letter.records)
count('deleted', letter.records)
return answer('1')
