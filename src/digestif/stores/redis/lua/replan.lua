#!lua flags=allow-oom
-- Move timelines that wait, by another policy.
-- KEYS   12… the timelines
-- ARGV   4 per timeline {state, at, until, since, terms, cool-down}: as the caller saw its slot and its override, false for
--        what is not there; the numbers of the policy
-- Reply  '1' per timeline that moved, else '0'
-- include: plans.lua

local function replan(timeline, state, at, lease_end, since, terms, cool_down)
  local slot = timeline.slot
  local is_as_seen = slot.state == state
    and slot.at == at
    and (slot['until'] or false) == lease_end
    and (slot.override and slot.override.since or false) == since
  if not is_as_seen then
    return '0'
  end
  plan(timeline, terms, cool_down)
  save_timeline(timeline)
  return slot.at ~= at and '1' or '0'
end

local moved = {}
for number, wanted in ipairs(cmsgpack.unpack(ARGV[4])) do
  moved[number] = replan(timeline_number(number), unpack(wanted, 1, 6))
end
return answer(table.concat(moved))
