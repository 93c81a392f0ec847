#!lua flags=allow-oom
-- Open suspects out of the given timelines: several that lapsed once, or a single one that lapsed again.
-- KEYS   12… the timelines, the first to lapse first
-- ARGV   4 {count, token, lease, first, asks, alone}: as for `claim`; whether nothing else runs beside them
-- Reply  {retired, leases, damaged, now, candidates, losses} as for `claim`
-- include: claims.lua

local function is_wanted(slot)
  return not slot.paused and is_suspect(slot, now)
end

local request = cmsgpack.unpack(ARGV[4])
local suspects, slots = {}, {}
for number = 1, moving and 0 or request.count do
  local timeline = candidate(number, is_wanted, LEASES)
  if timeline then
    table.insert(suspects, timeline)
    table.insert(slots, timeline.slot)
  end
end
local chosen = tried_together(slots)
for _, place in ipairs(chosen) do
  claim(suspects[place], request, request.alone and #chosen == 1)
end
return answer(cmsgpack.pack({ retired, leases, damaged, now, candidates, losses }))
