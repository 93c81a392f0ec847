#!lua flags=allow-oom
-- Make timelines ready that wait and are due.
-- KEYS   12… per timeline: its hash
-- ARGV   4 {began, times}: the number of the last move when this schedule began, timelines that began to wait later are
--        left to the next one; when each timeline was found to be due
-- Reply  '1' per timeline that became ready, '0' per one that is left or has moved meanwhile, '!' per one that is
--        damaged and leaves the schedule
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])

local function schedule(timeline, at)
  local slot = timeline.slot
  if slot.state ~= 'waiting' or slot.at ~= at then
    put_in_place(timeline)
    return timeline.state == 'damaged' and '!' or '0'
  end
  if slot.paused or (slot.placed or 0) > request.began then
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
return answer(table.concat(moved))
