#!lua flags=allow-oom
-- Delete parcels that have arrived in another store.
-- KEYS   12… per parcel: its timeline, then the letter: records, ages, times
-- ARGV   4 {parcels}: each {token, slot as exported}, or false for a letter
-- Reply  '1' per parcel, or '0' if it is not here any more
-- include: parcels.lua

local request = cmsgpack.unpack(ARGV[4])

local function delete_parcel(timeline, parcel)
  if not parcel then
    return delete_exported_letter(timeline, timeline.place + STRIDE)
  end
  local token, exported = unpack(parcel)
  if not timeline.slot.digest or timeline.slot.token ~= token then
    return false
  end
  delete_exported_digest(timeline, exported)
  return true
end

local deleted = {}
for number, parcel in ipairs(request.parcels) do
  deleted[number] = delete_parcel(timeline_number(number, WITH_LETTER), parcel) and '1' or '0'
end
return answer(table.concat(deleted))
