#!lua flags=allow-oom
-- Make a dead letter its timeline's unfinished digest.
-- KEYS   12… the timeline, then the letter: records, ages, times
-- Reply  '1', or '0' if there is no such letter; an error if the timeline has an unfinished digest, if the
--        value of its only record is gone, or while the store is being moved
-- include: endings.lua

local timeline = timeline_number(1)
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
local place = TIMELINES + STRIDE
local letter = read_letter(place, timeline.name)
if not letter then
  return answer('0')
end
-- include: moving.lua
if lacks_its_value(letter, place) then
  return redis.error_reply('DIGESTIF_VALUELESS')
end
if slot.digest then
  return redis.error_reply('DIGESTIF_UNFINISHED')
end
local digest = {
  id = letter.id,
  batch = 0,
  records = letter.records,
  opened = letter.opened,
  dropped = letter.dropped,
  revision = letter.revision,
  served = letter.served,
  unknown = letter.unknown,
}
after_replay(slot, digest, now)
call('HDEL', KEYS[place], '')
unlist_letter(letter, KEYS[timeline.place + DEAD])
rename(batch_found_at(place), timeline.place + DIGEST, true)
count('dead', -letter.records)
count('open', letter.records)
save_timeline(timeline)
return answer('1')
