#!lua flags=allow-oom
-- End leases now, as if they had run out.
-- KEYS   12… per timeline: its hash
-- ARGV   4 {ends}: when the leases ended that were seen
-- Reply  '1' per lease, or '0' if it has another end by now
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])
local ended = {}
for number, seen in ipairs(request.ends) do
  local timeline = load_timeline(TIMELINES + number - 1)
  local is_same = is_leased_until(timeline.slot, seen)
  if is_same then
    after_early_end(timeline.slot, now)
    save_timeline(timeline)
  end
  ended[number] = is_same and '1' or '0'
end
return answer(table.concat(ended))
