#!lua flags=allow-oom
-- Make timelines ready that wait and are due.
-- KEYS   12… per timeline: its hash
-- ARGV   4 {began, times, asks}: the number of the last move when this schedule began, timelines that began to wait
--        later are left to the next one; when each timeline was found to be due; whether all are answered as candidates
-- Reply  {flags, now, candidates}: '1' per timeline that became ready, '0' per one that is left or has moved meanwhile,
--        '!' per one that is damaged and leaves the schedule; candidates as {name, slot, pending}
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])
local candidates = {}

local function schedule(timeline, at)
  local slot = timeline.slot
  if slot.state ~= 'waiting' or slot.at ~= at then
    put_in_place(timeline)
    return timeline.state == 'damaged' and '!' or '0'
  end
  if moving or slot.paused or (slot.placed or 0) > request.began then
    return '0'
  end
  if must_be_admitted(slot, request.asks, timeline.pending) then
    table.insert(candidates, { timeline.name, slot, timeline.pending })
    return '0'
  end
  after_schedule(slot, now)
  save_timeline(timeline)
  return '1'
end

local moved = {}
for number, at in ipairs(request.times) do
  moved[number] = schedule(load_timeline(TIMELINES + number - 1), at)
end
return answer(cmsgpack.pack({ table.concat(moved), now, candidates }))
