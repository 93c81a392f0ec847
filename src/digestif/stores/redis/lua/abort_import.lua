#!lua flags=allow-oom
-- Delete the pages that have arrived of digests and dead letters whose import was given up.
-- KEYS   12… per parcel: its timeline, then the letter while it is not whole: records, ages, times;
--        last: notes (hash)
-- ARGV   4 {ids} of the parcels
-- Reply  empty
-- include: parcels.lua

local request = cmsgpack.unpack(ARGV[4])
for number, id in ipairs(request.ids) do
  local timeline = timeline_number(number, WITH_LETTER)
  delete_exported_letter(timeline, timeline.place + STRIDE)
  if timeline.slot.digest and timeline.slot.token == COMING .. id then
    delete_exported_digest(timeline)
  end
  call('HDEL', KEYS[#KEYS], id)
end
return answer('')
