-- include: timelines.lua
-- Records that something else than the scripts deleted.
local losses = {} -- for the reply: names of timelines, and how many of their records are gone

local function lose(timeline, fate, gone)
  count(fate, -gone)
  count('lost', gone)
  table.insert(losses, { timeline.name, gone })
end

-- How many records a batch has, of which `held` are in its hash. A key that only the order by age has belongs to a
-- record whose value is gone: it still counts. An order that lacks records is deleted, and the batch read without it.
local function counted(batch, held)
  local ordered = batch.large and call('ZCARD', batch.ages) or held
  if ordered >= held then
    return ordered
  end
  call('UNLINK', batch.ages)
  batch.large = false
  return held
end

-- Count the pending records before they leave as a whole.
local function count_pending(timeline)
  if timeline.slot.large then
    timeline.pending = counted(pending_of(timeline), timeline.pending)
  end
end

-- Correct the number of records that a digest notes; those that are gone count as lost. While it is merged it is not
-- counted.
local function recount(timeline)
  local digest, batch = timeline.slot.digest, digest_of(timeline)
  if digest.merging then
    return
  end
  local gone = digest.records - counted(batch, call('HLEN', batch.records))
  if gone > 0 then
    lose(timeline, 'open', gone)
    after_losing(digest, gone)
  else
    digest.records = digest.records - gone -- only the slot was wrong
  end
end
