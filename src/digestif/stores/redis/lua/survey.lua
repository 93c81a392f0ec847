#!lua flags=no-writes
-- Count what timelines hold, for a recount.
-- KEYS   12… the timelines
-- Reply  per timeline: its slot or nil; 1 if scripts can read it, else 0; 1 if the orders agree with its slot, else 0;
--        how many of its keys are of the wrong type; then per batch: records; those too short to be one,
--        or -1 if there are too many to look at; entries of its order by age, 0 if there is none, -1 if there should
--        be one; if these are as many as the records, only those that are records count, unless there are too many
-- include: timelines.lua

local MANY = 1000
local lists_pauses = call('HGET', LEDGER, 'pauses') -- the order of paused timelines has all of them

local function is_in_place(timeline)
  local after = marks(timeline.slot)
  for kind, order in pairs(orders()) do
    local score = call('ZSCORE', order, timeline.name)
    score = score and tonumber(score) or nil
    local is_unlisted = kind == 'paused' and not lists_pauses and not score and after[kind] == UNLEASED
    if score ~= after[kind] and not is_unlisted then
      return false
    end
  end
  return not call('ZSCORE', NAMES, timeline.name) == not timeline.stored
end

local function short_records(batch, size)
  if size == 0 or size > MANY then
    return size == 0 and 0 or -1
  end
  local short = 0
  for _, record in each(batch) do
    short = short + (timestamp_place(record) and 0 or 1)
  end
  return short
end

local function ordered_records(batch, size)
  local ordered = call('ZCARD', batch.ages)
  if ordered == 0 or ordered ~= size or size > MANY then
    return ordered
  end
  local found = 0
  for key, record in each(batch) do
    found = found + (call('ZSCORE', batch.ages, age_member(key, record)) and 1 or 0)
  end
  return found
end

local function survey(timeline)
  local stored = try('HGET', timeline.key, '')
  local has_slot = type(stored) == 'string'
  local wrong, is_wrong = 0, {}
  for offset = 0, DEAD do
    local kind = call('TYPE', KEYS[timeline.place + offset]).ok
    is_wrong[offset] = kind ~= 'none' and kind ~= (offset % 3 == 0 and offset < DEAD and 'hash' or 'zset')
    wrong = wrong + (is_wrong[offset] and 1 or 0)
  end
  local reply = { has_slot and stored, timeline.state ~= 'damaged' and 1 or 0, is_in_place(timeline) and 1 or 0, wrong }
  for offset = 0, MERGING, DIGEST do
    local batch = batch_at(timeline.place + offset)
    local size = is_wrong[offset] and 0 or call('HLEN', batch.records)
    if offset == 0 and has_slot then
      size = size - 1
    end
    table.insert(reply, size)
    table.insert(reply, short_records(batch, size))
    local ordered = is_wrong[offset + 1] and 0 or ordered_records(batch, size)
    local lacks_order = offset == 0 and timeline.slot.large and ordered == 0 and size > 0
    table.insert(reply, lacks_order and -1 or ordered)
  end
  return reply
end

local found = {}
for number = 1, (#KEYS - TIMELINES + 1) / STRIDE do
  found[number] = survey(timeline_number(number))
end
return found
