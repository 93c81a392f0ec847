-- include: measures.lua
-- A batch is a hash from record key to record, and if it is large two orders.
--   ages   (zset) by timestamp: arrival and key, so that ties stand in the order of arrival
--   times  (zset) 'x' and key by expiry, above zero; 'u' and key by deadline, below zero.
--          A small batch has deadlines only
local HEAVY = 1048576 -- bytes: a call that has moved so many leaves the rest to the next one
local effort = 1000 -- small batches are looked through, sorted and enlarged for so many records in a call, then no more

local function batch_at(place, large)
  return { records = KEYS[place], ages = KEYS[place + 1], times = KEYS[place + 2], large = large }
end

-- A batch of which nobody noted whether it is large.
local function batch_found_at(place)
  return batch_at(place, redis.call('EXISTS', KEYS[place + 1]) == 1)
end

-- A record as it is stored: its arrival number, its expiry, the timestamp of its event and the payload.
local function packed(arrival, expires, rest)
  return struct.pack('>I5i7', arrival, expires or NEVER) .. rest
end

-- A record that was damaged, and is too short to be one, still has to be moved and counted.
local WHOLE = 20 -- bytes before the payload

local function arrival_of(record)
  return string.len(record) < WHOLE and 0 or (struct.unpack('>I5', record))
end

local function expiry_of(record)
  local expires = string.len(record) < WHOLE and NEVER or (struct.unpack('>i7', record, 6))
  return expires < NEVER and expires or nil
end

local function timestamp_of(record)
  local timestamp = string.len(record) < WHOLE and 0 or (struct.unpack('>d', record, 13))
  return timestamp == timestamp and timestamp or 0 -- what is not a number can't be sorted
end

local function age_member(key, record)
  return struct.pack('>I8', arrival_of(record)) .. key
end

local function key_of(member)
  return string.sub(member, 9)
end

local function note(batch, key, record)
  redis.call('ZADD', batch.ages, timestamp_of(record), age_member(key, record))
  local expires = expiry_of(record)
  if expires then
    redis.call('ZADD', batch.times, expires + SHIFT, 'x' .. key)
  end
end

-- Each record of a small batch, as key and record; none if the key is no hash.
local function each(batch)
  local flat = redis.pcall('HGETALL', batch.records)
  local place = -1
  return function()
    place = place + 2
    if flat[place] == '' then
      place = place + 2 -- the slot of a timeline
    end
    return flat[place], flat[place + 1]
  end
end

local function enlarge(batch)
  if not batch.large then
    for key, record in each(batch) do
      note(batch, key, record)
      effort = effort - 1
    end
    batch.large = true
  end
end

-- Remove a record from the orders, not from the hash.
local function unnote(batch, key, record)
  if batch.large then
    redis.call('ZREM', batch.ages, age_member(key, record))
  end
  redis.call('ZREM', batch.times, 'x' .. key, 'u' .. key)
end

-- Put a record into a batch; true if it replaced an older version.
local function put(batch, key, record, has_deadlines, size)
  if batch.large or has_deadlines then
    local old = redis.call('HGET', batch.records, key)
    if old then
      unnote(batch, key, old)
    end
  end
  local replaced = redis.call('HSET', batch.records, key, record) == 0
  if batch.large then
    note(batch, key, record)
  elseif size >= SMALL or string.len(record) > LIGHT then
    if effort > 0 or size >= 4 * SMALL then -- many that grow in step are enlarged by and by
      enlarge(batch)
    end
  end
  return replaced
end

-- Take a record out of a batch; the answer is the record.
local function pull(batch, key)
  local record = redis.call('HGET', batch.records, key)
  if record then
    unnote(batch, key, record)
    redis.call('HDEL', batch.records, key)
  end
  return record
end

local function oldest_of_small(batch)
  local oldest, timestamp, arrival
  for key, record in each(batch) do
    local at = timestamp_of(record)
    if not oldest or at < timestamp or (at == timestamp and arrival_of(record) < arrival) then
      oldest, timestamp, arrival = key, at, arrival_of(record)
    end
  end
  return oldest
end

local function drop_oldest(batch, many)
  if many == 0 then
    return
  end
  if many == 1 and effort <= 0 and not batch.large then
    pull(batch, oldest_of_small(batch))
    return
  end
  enlarge(batch)
  for _, member in ipairs(redis.call('ZRANGE', batch.ages, 0, many - 1)) do
    local key = key_of(member)
    redis.call('HDEL', batch.records, key)
    redis.call('ZREM', batch.times, 'x' .. key, 'u' .. key)
  end
  redis.call('ZREMRANGEBYRANK', batch.ages, 0, many - 1)
end

local function earliest_deadline(batch)
  local found = redis.call('ZREVRANGEBYSCORE', batch.times, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and -tonumber(found[2]) - SHIFT or nil
end

local function erase(batch)
  redis.call('UNLINK', batch.records, batch.ages, batch.times)
end

local function rename(batch, place)
  redis.call('RENAME', batch.records, KEYS[place])
  for offset, order in ipairs({ batch.ages, batch.times }) do
    if redis.call('EXISTS', order) == 1 then
      redis.call('RENAME', order, KEYS[place + offset])
    end
  end
end
