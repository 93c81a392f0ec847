#!lua flags=allow-oom
-- Make timelines ready that wait and are due.
-- KEYS   12… per timeline: its hash
-- ARGV   4 {began, times}: the last move that counts, what began to wait later is left to the next call of schedule;
--        when each timeline was seen to be due
-- Reply  '1' per timeline that became ready, '0' per one that somebody else moved meanwhile or that is left, '!' per one
--        that is damaged and leaves the schedule
-- include: slots.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])

-- Waiting and due: somebody is told to deliver it.
local function schedule(timeline, at)
  local slot = timeline.slot
  if slot.state ~= 'waiting' or slot.at ~= at then
    put_in_place(timeline)
    return timeline.state == 'damaged' and '!' or '0'
  end
  if slot.paused or (slot.placed or 0) > request.began then
    return '0'
  end
  slot.state, slot.since = 'ready', now
  save_timeline(timeline)
  return '1'
end

local moved = {}
for number, at in ipairs(request.times) do
  moved[number] = schedule(load_timeline(TIMELINES + number - 1), at)
end
return answer(table.concat(moved))
