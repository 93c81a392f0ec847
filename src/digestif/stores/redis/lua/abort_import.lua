#!lua flags=allow-oom
-- Delete the pages that have arrived of digests and dead letters whose import was given up.
-- KEYS   12… per parcel: its timeline, then the letter while it is not whole: records, ages, times;
--        last: notes (hash)
-- ARGV   4 {parcels}: each {id, slot as exported}
-- Reply  empty
-- include: parcels.lua

local request = cmsgpack.unpack(ARGV[4])
for number, parcel in ipairs(request.parcels) do
  local id, exported = unpack(parcel)
  local timeline = timeline_number(number, WITH_LETTER)
  delete_exported_letter(timeline, timeline.place + STRIDE)
  if timeline.slot.digest and timeline.slot.token == COMING .. id then
    delete_exported_digest(timeline, exported)
  end
  call('HDEL', KEYS[#KEYS], id)
end
return answer('')
