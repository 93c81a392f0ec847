#!lua flags=allow-oom
-- Open timelines that may be claimed; those without any record become idle instead, and damaged ones leave the schedule.
-- KEYS   12… the timelines
-- ARGV   4 {count, token, lease, first}: the lease in milliseconds; the number of the first fresh digest
-- Reply  {retired, leases, damaged}: each lease as `open` tells it; the numbers of timelines that are damaged
-- include: claiming.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local function is_claimable(slot)
  return not slot.paused and (slot.state == 'ready' or (slot.state == 'waiting' and slot.at <= now))
end

local request = cmsgpack.unpack(ARGV[4])
for number = 1, request.count do
  local timeline = candidate(number, is_claimable)
  if timeline then
    claim(timeline, request)
  end
end
return answer(cmsgpack.pack({ retired, leases, damaged }))
