#!lua flags=allow-oom
-- Remove what has arrived of digests and dead letters whose rest will never come.
-- KEYS   12… per parcel: its timeline, then the letter while it is not whole: records, ages, times; last: notes (hash)
-- ARGV   4 {ids} of the parcels
-- Reply  empty
-- include: ending.lua
-- include: transfer.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local APART = STRIDE + 3 -- keys of a timeline and a letter
for number, id in ipairs(request.ids) do
  local timeline = timeline_number(number, APART)
  local place = timeline.place + STRIDE
  local letter = read_letter(place, timeline.name)
  if letter then
    unlist_letter(letter, KEYS[timeline.place + DEAD])
    erase(batch_found_at(place))
    count('dead', -letter.records)
    count('left', letter.records)
  end
  local digest = timeline.slot.digest
  if digest and timeline.slot.token == COMING .. id then
    erase_digest(timeline)
    count('open', -digest.records)
    count('left', digest.records)
    timeline.slot = after_departed(timeline.slot, now, timeline.pending)
    save_timeline(timeline)
  end
  call('HDEL', KEYS[#KEYS], id)
end
return answer('')
