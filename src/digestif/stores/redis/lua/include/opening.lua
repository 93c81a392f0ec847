-- include: timelines.lua
-- include: leasing.lua

-- Give a lease for a timeline and save it; the answer tells its digest, for the caller.
local function open(timeline, token, lease, fresh_id, alone)
  local slot, pending = timeline.slot, timeline.pending
  local iteration, at, lapsed = slot.iteration, slot.at, slot.state == 'open'
  if after_open(slot, now, token, lease, fresh_id, pending, alone) then
    move_pending(timeline, DIGEST)
    count('pending', -pending)
    count('open', pending)
  end
  save_timeline(timeline)
  local digest = slot.digest
  return {
    timeline.name,
    slot['until'],
    digest.id,
    digest.attempt,
    digest.lapses,
    iteration,
    at,
    lapsed,
    digest.lapses_alone or 0,
  }
end
