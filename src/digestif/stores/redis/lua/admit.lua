#!lua flags=allow-oom
-- Open candidates, or without a token make them ready; those with a later time wait for that.
-- KEYS   12… the timelines
-- ARGV   4 {token, lease, admissions}: per timeline {state, at, until, since, later, group}: as the caller saw its
--        slot and its override; until when it has to wait; the size of its group. What is not there is false
-- Reply  {leases, ready, kept, damaged, losses}: leases as `open` answers them; {name, due time} of those that became
--        ready; how many wait; numbers of damaged timelines; losses as {name, records}. Nothing is done while the
--        store is being moved
-- include: claims.lua

local request = cmsgpack.unpack(ARGV[4])
local ready, held_back = {}, 0

local function admit(timeline, later, group)
  local slot = timeline.slot
  if later then
    after_admission_refused(slot, later)
    save_timeline(timeline)
    held_back = held_back + 1
  elseif request.token then
    local fresh_id = derived_id(request.token, timeline.name)
    table.insert(leases, open(timeline, request.token, request.lease, fresh_id, group))
  elseif slot.state == 'waiting' then
    table.insert(ready, { timeline.name, slot.at })
    after_schedule(slot, now)
    save_timeline(timeline)
  end
end

local admissions = moving and {} or request.admissions
for number, admission in ipairs(admissions) do
  local timeline = with_sound_batches(timeline_number(number))
  if timeline.state == 'damaged' then
    put_in_place(timeline)
    table.insert(damaged, number)
  elseif is_as_seen(timeline.slot, admission) and may_be_admitted(timeline.slot, now, timeline.pending) then
    admit(timeline, admission[5], admission[6])
  end
end
return answer(cmsgpack.pack({ leases, ready, held_back, damaged, losses }))
