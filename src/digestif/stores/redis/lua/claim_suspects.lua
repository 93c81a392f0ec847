#!lua flags=allow-oom
-- Open those of the given suspects that may join a group.
-- KEYS   12… the timelines, the first to lapse first
-- ARGV   4 {count, token, lease, asks, size, is_decided, alone}: as for `claim`; the size of the group, if it is
--        not decided the largest that the worker tries; whether nothing else runs beside the group
-- Reply  {retired, leases, damaged, now, candidates, losses, size, passed over} as for `claim`; the size of the group,
--        and how many may not join it
-- include: claims.lua

local function is_wanted(slot)
  return not slot.paused and is_suspect(slot, now)
end

local request = cmsgpack.unpack(ARGV[4])
local size, passed_over, joined = request.size, 0, 0

-- Let the first suspect decide how large the group is, unless one of another call did.
local function decide_size(suspect)
  if not request.is_decided then
    size, request.is_decided = group_size(suspect, size), true
  end
end

for number = 1, moving and 0 or request.count do
  local timeline = candidate(number, is_wanted, LEASES)
  if timeline then
    decide_size(timeline.slot)
    if joined < size and may_join(timeline.slot, size) then
      joined = joined + 1
      claim(timeline, request, request.alone and size or 0)
    else
      passed_over = passed_over + 1
    end
  end
end
return answer(cmsgpack.pack({ retired, leases, damaged, now, candidates, losses, size, passed_over }))
