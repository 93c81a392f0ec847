-- Timelines whose lease lapsed and that nobody took over: the twin of core/machine.py.

local function is_suspect(slot, now)
  return slot.state == 'open' and slot['until'] <= now
end

-- Those of these suspects, the first to lapse first, that are tried beside each other: the first one decides. One that
-- has lapsed before is tried alone; otherwise all for which this is the first lapse are.
local function tried_together(suspects)
  local chosen = {}
  for place, timeline in ipairs(suspects) do
    local lapsed_before = timeline.slot.digest.lapses > 0
    if lapsed_before and place == 1 then
      return { timeline }
    elseif not lapsed_before then
      table.insert(chosen, timeline)
    end
  end
  return chosen
end
