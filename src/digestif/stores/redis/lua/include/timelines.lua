-- include: slots.lua
-- include: batches.lua
-- A timeline with all of its keys: three per batch (records, ages, times) for what is pending, what is in the digest
-- and what is being merged into it, and the order of its dead letters.
local STRIDE = 10
local DIGEST, MERGING, DEAD = 3, 6, 9 -- offsets

local function timeline_number(number, stride)
  return load_timeline(TIMELINES + (number - 1) * (stride or STRIDE))
end

local function pending_of(timeline)
  return batch_at(timeline.place, timeline.slot.large)
end

local function digest_of(timeline)
  return batch_found_at(timeline.place + DIGEST)
end

local function merging_of(timeline)
  return batch_found_at(timeline.place + MERGING)
end

-- The pending records become another batch of the timeline; the slot stays.
local function move_pending(timeline, offset)
  if timeline.pending > 0 then
    rename(pending_of(timeline), timeline.place + offset)
    call('HDEL', KEYS[timeline.place + offset], '')
    timeline.pending = 0
  end
end

local function erase_digest(timeline)
  erase(digest_of(timeline))
  if timeline.slot.digest.merging then
    erase(merging_of(timeline))
  end
end

-- Pending records were taken away one by one: note what is left.
local function fewer_pending(timeline, many)
  local slot = timeline.slot
  timeline.pending = timeline.pending - many
  if timeline.pending == 0 then
    slot.first, slot.deadline, slot.expires, slot.large = nil, nil, nil, nil
  elseif slot.deadline then
    slot.deadline = earliest_deadline(pending_of(timeline))
  end
end

-- Whether the keys of its batches are of the types that they should be; those that a sound timeline need not have are
-- not looked at.
local function has_sound_batches(timeline)
  local slot = timeline.slot
  for offset = (slot.large or slot.deadline) and 1 or 3, slot.digest and 8 or 2 do
    local kind = call('TYPE', KEYS[timeline.place + offset]).ok
    if kind ~= 'none' and kind ~= (offset % 3 == 0 and 'hash' or 'zset') then
      return false
    end
  end
  return true
end

-- The same timeline, taken for damaged if it has to do with a key of the wrong type.
local function with_sound_batches(timeline)
  if timeline.state ~= 'damaged' and not has_sound_batches(timeline) then
    timeline.slot, timeline.state = { state = 'damaged' }, 'damaged'
  end
  return timeline
end
