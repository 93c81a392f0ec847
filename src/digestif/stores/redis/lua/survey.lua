#!lua flags=no-writes
-- Look at everything that a timeline holds, for a recount.
-- KEYS   12… the timeline
-- Reply  its slot or nil; 1 if scripts can read it, else 0; 1 if it stands in the schedule where it should, else 0; how
--        many of its keys are of the wrong type; then per batch: records, those too short to be one, or -1 if there are
--        too many to look at; records in its order by age, 0 if there is none
-- include: timelines.lua

local MANY = 1000
local timeline = timeline_number(1)
local stored = redis.pcall('HGET', timeline.key, '')

local function stands_well()
  local after = marks(timeline.slot)
  local orders = { waiting = WAITING, ready = READY, since = SINCE, leases = LEASES, paused = PAUSED, expiring = EXPIRING }
  for kind, order in pairs(orders) do
    local score = call('ZSCORE', order, timeline.name)
    if (score and tonumber(score) or nil) ~= after[kind] then
      return 0
    end
  end
  return (call('ZSCORE', NAMES, timeline.name) and true or false) == (stored and true or false) and 1 or 0
end

local function is_wrong(offset)
  local kind = call('TYPE', KEYS[timeline.place + offset]).ok
  return kind ~= 'none' and kind ~= (offset % 3 == 0 and offset < DEAD and 'hash' or 'zset')
end

local wrong = 0
for offset = 0, DEAD do
  wrong = wrong + (is_wrong(offset) and 1 or 0)
end
local readable = timeline.state ~= 'damaged' and 1 or 0
local reply = { type(stored) == 'string' and stored, readable, stands_well(), wrong }
for offset = 0, MERGING, DIGEST do
  local batch = batch_at(timeline.place + offset)
  local size = is_wrong(offset) and 0 or call('HLEN', batch.records)
  if offset == 0 and type(stored) == 'string' then
    size = size - 1
  end
  local short = size > MANY and -1 or 0
  if size > 0 and size <= MANY then
    for _, record in each(batch) do
      short = short + (string.len(record) < WHOLE and 1 or 0)
    end
  end
  table.insert(reply, size)
  table.insert(reply, short)
  table.insert(reply, is_wrong(offset + 1) and 0 or call('ZCARD', batch.ages))
end
return reply
