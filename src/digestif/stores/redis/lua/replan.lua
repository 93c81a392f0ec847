#!lua flags=allow-oom
-- Move timelines that wait, by another policy.
-- KEYS   12… the timelines
-- ARGV   4 per timeline {state, at, until, since, terms, cool-down}: as the caller saw its slot and its override, false
--        for what is not there; the numbers of the policy
-- Reply  '1' per timeline that moved, else '0'
-- include: plans.lua

local function replan(timeline, wanted)
  local slot = timeline.slot
  if not is_as_seen(slot, wanted) then
    return '0'
  end
  local at = slot.at
  plan(timeline, wanted[5], wanted[6])
  save_timeline(timeline)
  return slot.at ~= at and '1' or '0'
end

local moved = {}
for number, wanted in ipairs(cmsgpack.unpack(ARGV[4])) do
  moved[number] = replan(timeline_number(number), wanted)
end
return answer(table.concat(moved))
