-- include: endings.lua
-- include: transfer.lua
-- Parcels that leave. Their records are counted as `left`: `accepted`, which numbers records, must not fall.

local function delete_exported_digest(timeline, exported)
  local digest = timeline.slot.digest
  delete_digest(timeline)
  count('open', -digest.records)
  count('left', digest.records)
  timeline.slot = after_commit_export(timeline.slot, now, timeline.pending, exported)
  save_timeline(timeline)
end

-- Delete the dead letter at `place`; false if there is none.
local function delete_exported_letter(timeline, place)
  local letter = read_letter(place, timeline.name)
  if not letter then
    return false
  end
  local lost = math.max(0, letter.records - call('HLEN', KEYS[place]) + 1)
  delete_letter(timeline, letter, place)
  count('dead', -letter.records)
  count('left', letter.records - lost)
  count('lost', lost)
  return true
end
