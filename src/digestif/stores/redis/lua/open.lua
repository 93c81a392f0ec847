#!lua flags=allow-oom
-- Open one timeline for delivery.
-- KEYS   12… the timeline
-- ARGV   4 {token, lease, group, asks}: 1 if nothing else runs beside it, else 0; whether it is answered as a candidate
-- Reply  {lease, losses} as `open` answers it; {false, now, slot} if the timeline may not be opened; for a candidate
--        {false, now, slot, pending}; an error while the store is being moved
-- include: claims.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
if damage_of(timeline) then
  return damage_of(timeline)
end
-- include: moving.lua
local slot = timeline.slot
if refuse_opening(slot, now) then
  return answer(cmsgpack.pack({ false, now, slot }))
end
if must_be_admitted(slot, request.asks, timeline.pending) then
  return answer(cmsgpack.pack({ false, now, slot, timeline.pending }))
end
local lease = open(timeline, request.token, request.lease, request.token, request.group)
return answer(cmsgpack.pack({ lease, losses }))
