-- include: opening.lua
-- include: placing.lua
-- Claims look at each candidate again: since it was found, somebody else may have been there.
local retired, leases, damaged = 0, {}, {} -- what is told: how many became idle, the leases, numbers of damaged ones

-- The timeline of this number; nil if it is not what the claim looks for.
local function candidate(number, is_wanted)
  local timeline = with_sound_batches(timeline_number(number))
  if timeline.state == 'damaged' then
    table.insert(damaged, number)
  end
  if is_wanted(timeline.slot) then
    return timeline
  end
  put_in_place(timeline) -- somebody was here before, or it never stood where it was found
  return nil
end

-- Open a timeline; one without any record becomes idle instead.
local function claim(timeline, request, alone)
  local slot = timeline.slot
  if timeline.pending == 0 and (not slot.digest or slot.digest.records == 0) then
    timeline.slot = after_retirement(slot)
    save_timeline(timeline)
    retired = retired + 1
  else
    local fresh_id = request.token .. '-' .. (request.first + #leases)
    table.insert(leases, open(timeline, request.token, request.lease, fresh_id, alone))
  end
end
