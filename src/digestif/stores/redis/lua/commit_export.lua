#!lua flags=allow-oom
-- Erase parcels that have arrived in another store.
-- KEYS   12… per parcel: its timeline, then the letter: records, ages, times
-- ARGV   4 {parcels}: each {token, or false for a letter}
-- Reply  '1' per parcel, or '0' if it is not here any more
-- include: parcels.lua

local request = cmsgpack.unpack(ARGV[4])

local function erase_parcel(timeline, token)
  if not token then
    return erase_exported_letter(timeline, timeline.place + STRIDE)
  end
  if not timeline.slot.digest or timeline.slot.token ~= token then
    return false
  end
  erase_exported_digest(timeline)
  return true
end

local erased = {}
for number, token in ipairs(request.parcels) do
  erased[number] = erase_parcel(timeline_number(number, WITH_LETTER), token) and '1' or '0'
end
return answer(table.concat(erased))
