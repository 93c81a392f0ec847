#!lua flags=allow-oom
-- Abort exports: the timelines are delivered from this store again.
-- KEYS   12… the timelines
-- ARGV   4 {count}
-- Reply  '1' per timeline, or '0' if it is not held
-- include: timelines.lua
-- include: transfer.lua

local request = cmsgpack.unpack(ARGV[4])
local aborted = {}
for number = 1, request.count do
  local timeline = timeline_number(number)
  aborted[number] = '0'
  if is_leaving(timeline.slot) then
    after_abort_export(timeline.slot, timeline.pending)
    save_timeline(timeline)
    aborted[number] = '1'
  end
end
return answer(table.concat(aborted))
