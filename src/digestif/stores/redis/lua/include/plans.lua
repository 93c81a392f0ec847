-- include: timelines.lua
-- Place a timeline by another policy. The earliest expiry of its records has to be exact: records that left may have
-- been the first to expire.
local function plan(timeline, terms, cool_down)
  local slot = timeline.slot
  if terms.openings and slot.expires then
    slot.expires = timeline.pending > 0 and earliest_expiry(pending_of(timeline)) or nil
  end
  after_plan(slot, now, terms, cool_down, timeline.pending)
end
