#!lua flags=allow-oom
-- Forget what has arrived in another store.
-- KEYS   12… per parcel: its timeline, then the letter: records, ages, times
-- ARGV   4 {parcels}: each {token, or false for a letter}
-- Reply  '1' per parcel, or '0' if it is not here any more
-- include: ending.lua
-- include: transfer.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local APART = STRIDE + 3 -- keys of a timeline and its letter

-- What was accepted gives records their numbers, so it never falls: those that left are counted beside it.
local function let_digest_go(timeline, token)
  local digest = timeline.slot.digest
  if not digest or timeline.slot.token ~= token then
    return '0'
  end
  erase_digest(timeline)
  count('open', -digest.records)
  count('left', digest.records)
  timeline.slot = after_departed(timeline.slot, now, timeline.pending)
  save_timeline(timeline)
  return '1'
end

local function let_letter_go(timeline)
  local place = timeline.place + STRIDE
  local letter = read_letter(place, timeline.name)
  if not letter then
    return '0'
  end
  unlist_letter(letter, KEYS[timeline.place + DEAD])
  erase(batch_found_at(place))
  count('dead', -letter.records)
  count('left', letter.records)
  return '1'
end

local gone = {}
for number, token in ipairs(request.parcels) do
  local timeline = timeline_number(number, APART)
  gone[number] = token and let_digest_go(timeline, token) or let_letter_go(timeline)
end
return answer(table.concat(gone))
