#!lua flags=allow-oom
-- Store a policy for a timeline, and move the timeline if it waits.
-- KEYS   12… the timeline
-- ARGV   4 the override
-- Reply  '1'
-- include: plans.lua
-- include: losses.lua

local override = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
slot.override = override

-- People switched the timeline off: nothing is delivered any more, apart from a digest that is open.
if override.off then
  count_pending(timeline)
  local gone, open = timeline.pending, 0
  if slot.digest and slot.state ~= 'open' then
    open = slot.digest.records
    delete_digest(timeline)
    slot.digest = nil
  end
  delete_batch(pending_of(timeline)) -- with the slot, which is saved below
  without_pending(slot)
  timeline.pending = 0
  count('pending', -gone)
  count('open', -open)
  count('deleted', gone + open)
  timeline.slot = after_switched_off(slot)
else
  plan(timeline, override.terms, cool_down_of(override, slot.iteration))
end
save_timeline(timeline)
return answer('1')
