#!lua flags=allow-oom
-- Let timelines stay that are held for the road to another store.
-- KEYS   12… the timelines
-- ARGV   4 {count}
-- Reply  '1' per timeline, or '0' if it is not held
-- include: timelines.lua
-- include: transfer.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local stays = {}
for number = 1, request.count do
  local timeline = timeline_number(number)
  stays[number] = '0'
  if is_leaving(timeline.slot) then
    after_staying(timeline.slot, timeline.pending)
    save_timeline(timeline)
    stays[number] = '1'
  end
end
return answer(table.concat(stays))
