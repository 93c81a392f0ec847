#!lua flags=allow-oom
-- Open timelines that may be claimed; those without any record become idle instead, and damaged ones leave the schedule.
-- KEYS   12… the timelines
-- ARGV   4 {count, token, lease, first}: the lease in milliseconds; the number of the first fresh digest
-- Reply  {retired, leases, damaged}: each lease as `open` tells it; the numbers of timelines that are damaged
-- include: opening.lua
-- include: placing.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])

local function is_claimable(slot)
  if slot.paused then
    return false
  end
  return slot.state == 'ready'
    or (slot.state == 'waiting' and slot.at <= now)
    or (slot.state == 'open' and slot['until'] <= now)
end

local function is_empty(timeline)
  local digest = timeline.slot.digest
  return timeline.pending == 0 and (not digest or digest.records == 0)
end

local retired, leases, damaged = 0, {}, {}
for number = 1, request.count do
  local timeline = with_sound_batches(timeline_number(number))
  local claimable = is_claimable(timeline.slot)
  if timeline.state == 'damaged' then
    table.insert(damaged, number)
  end
  if not claimable then -- somebody was here before, or it never stood where it was found
    put_in_place(timeline)
  end
  if claimable and is_empty(timeline) then
    timeline.slot = after_retirement(timeline.slot)
    save_timeline(timeline)
    retired = retired + 1
  elseif claimable then
    local fresh_id = request.token .. '-' .. (request.first + #leases)
    table.insert(leases, open(timeline, request.token, request.lease, fresh_id))
  end
end
return answer(cmsgpack.pack({ retired, leases, damaged }))
