#!lua flags=allow-oom
-- Open timelines whose lease lapsed, of those that were found the ones that are tried beside each other.
-- KEYS   12… the timelines, the first to lapse first
-- ARGV   4 {count, token, lease, first, alone}: as for `claim`; whether nothing else runs beside them
-- Reply  {retired, leases, damaged} as for `claim`
-- include: claiming.lua
-- include: suspects.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local function is_wanted(slot)
  return not slot.paused and is_suspect(slot, now)
end

local request = cmsgpack.unpack(ARGV[4])
local suspects = {}
for number = 1, request.count do
  suspects[#suspects + 1] = candidate(number, is_wanted)
end
local chosen = tried_together(suspects)
for _, timeline in ipairs(chosen) do
  claim(timeline, request, request.alone and #chosen == 1)
end
return answer(cmsgpack.pack({ retired, leases, damaged }))
