-- include: losses.lua
-- Timelines that people switched off: nothing is delivered any more, apart from a digest that is open.

-- Delete the pending records, and the digest unless it is open; they count as deleted. The caller saves the timeline.
local function empty(timeline)
  local slot = timeline.slot
  count_pending(timeline)
  local gone, open = timeline.pending, 0
  if slot.digest and slot.state ~= 'open' then
    open = slot.digest.records
    delete_digest(timeline)
    slot.digest = nil
  end
  delete_batch(pending_of(timeline)) -- with the slot, which is saved again
  without_pending(slot)
  timeline.pending = 0
  count('pending', -gone)
  count('open', -open)
  count('deleted', gone + open)
  timeline.slot = after_switched_off(slot)
end
