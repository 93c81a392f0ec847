#!lua flags=allow-oom
-- Hold timelines for an export to another store.
-- KEYS   12… the timelines
-- ARGV   4 {tokens}: one per timeline
-- Reply  {slots, losses}: per timeline its slot; false if there is none, or its lease is alive; {name, records} of
--        those that have lost some
-- include: losses.lua
-- include: transfer.lua

local request = cmsgpack.unpack(ARGV[4])
local held = {}
for number, token in ipairs(request.tokens) do
  local timeline = timeline_number(number)
  local slot = timeline.slot
  held[number] = false
  if is_leaving(slot) then
    recount(timeline)
    save_timeline(timeline)
    held[number] = slot
  elseif timeline.stored and timeline.state ~= 'damaged' and not is_live(slot, now) then
    count_pending(timeline)
    local pending = timeline.pending
    if after_begin_export(slot, now, token, pending) then
      move_pending(timeline, DIGEST)
      count('pending', -pending)
      count('open', pending)
    end
    recount(timeline) -- a parcel that lacks records would never be whole
    save_timeline(timeline)
    held[number] = slot
  end
end
return answer(cmsgpack.pack({ held, losses }))
