-- include: basics.lua
-- A batch is a hash from record key to record, and if it is large two orders.
--   ages   (zset) by timestamp: arrival and key, so that ties stand in the order of arrival
--   times  (zset) 'x' and key by expiry, above zero; 'u' and key by deadline, below zero.
--          A small batch has deadlines only
local HEAVY = 1048576 -- bytes: a call that has moved so many leaves the rest to the next one
local effort = 1000 -- small batches are looked through, sorted and enlarged for so many records in a call, then no more
local weight = 0 -- bytes of the records that expired in this call

local function batch_at(place, large)
  return { records = KEYS[place], ages = KEYS[place + 1], times = KEYS[place + 2], large = large }
end

-- A batch whose slot does not say whether it is large.
local function batch_found_at(place)
  return batch_at(place, call('EXISTS', KEYS[place + 1]) == 1)
end

-- The same of a batch that may be damaged: orders that fit neither its records nor the number that was noted are deleted.
local function sound_batch_at(place, noted)
  local batch = batch_found_at(place)
  local ages, times = call('TYPE', batch.ages).ok, call('TYPE', batch.times).ok
  local ordered = ages == 'zset' and call('ZCARD', batch.ages)
  local fits = ordered == call('HLEN', batch.records) - 1 or ordered == noted -- which has keys whose values are gone
  if (batch.large and not fits) or (times ~= 'zset' and times ~= 'none') then
    call('UNLINK', batch.ages, batch.times)
    batch.large = false
  end
  return batch
end

-- A record as it is stored: its form, its arrival number, its expiry if it has one, the timestamp of its event and the
-- payload. `nameless`: the payload is JSON, without the name of its codec.
local function packed(arrival, expires, rest, nameless)
  local form = FORM + (nameless and NAMELESS or 0)
  if expires then
    return struct.pack('>BI5i7', form + EXPIRES, arrival, expires) .. rest
  end
  return struct.pack('>BI5', form, arrival) .. rest
end

-- Where the timestamp begins; nil if a damaged record is too short to be one, or says an unknown form. It still has to be
-- moved and counted.
local AFTER_ARRIVAL, AFTER_EXPIRY, WITHOUT_FORM = 7, 14, 13
local LAST_FORM = FORM + EXPIRES + NAMELESS
local function timestamp_place(record)
  local form = string.byte(record) or 0
  local place = form < FORM and WITHOUT_FORM or form % 2 == EXPIRES and AFTER_EXPIRY or AFTER_ARRIVAL
  return form <= LAST_FORM and string.len(record) > place + 6 and place or nil
end

local function is_nameless(record)
  local form = string.byte(record) or 0
  return form >= FORM + NAMELESS
end

local function arrival_of(record)
  local place = timestamp_place(record)
  return place and struct.unpack('>I5', record, place == WITHOUT_FORM and 1 or 2) or 0
end

local function expiry_of(record)
  local place = timestamp_place(record)
  local expires = place and place > AFTER_ARRIVAL and struct.unpack('>i7', record, place - 7) or NEVER
  return expires < NEVER and expires or nil
end

local function timestamp_of(record)
  local place = timestamp_place(record)
  local timestamp = place and struct.unpack('>d', record, place) or 0
  return timestamp == timestamp and timestamp or 0 -- NaN can't be sorted
end

local function age_member(key, record)
  return struct.pack('>I8', arrival_of(record)) .. key
end

local function key_of(member)
  return string.sub(member, 9)
end

local function add_to_orders(batch, key, record)
  call('ZADD', batch.ages, timestamp_of(record), age_member(key, record))
  local expires = expiry_of(record)
  if expires then
    call('ZADD', batch.times, expires + SHIFT, 'x' .. key)
  end
end

-- Each record of a small batch, as key and record; none if the key is no hash.
local function each(batch)
  local flat = try('HGETALL', batch.records)
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
      add_to_orders(batch, key, record)
      effort = effort - 1
    end
    batch.large = true
  end
end

-- Remove a record that does not say its arrival any more, because it is damaged or gone. True if the order had it.
local function remove_from_ages(batch, key)
  local found = false
  for _, member in ipairs(call('ZRANGE', batch.ages, 0, -1)) do
    if key_of(member) == key then
      call('ZREM', batch.ages, member)
      found = true
    end
  end
  return found
end

-- Remove a record from the orders, not from the hash. True if the order by age had it.
local function remove_from_orders(batch, key, record)
  call('ZREM', batch.times, 'x' .. key, 'u' .. key)
  return batch.large
    and (call('ZREM', batch.ages, age_member(key, record)) == 1 or remove_from_ages(batch, key))
end

-- Put a record into a batch; true if it replaced an older version.
local function put(batch, key, record, has_deadlines, size)
  if batch.large or has_deadlines then
    local old = call('HGET', batch.records, key)
    if old then
      remove_from_orders(batch, key, old)
    end
  end
  local replaced = call('HSET', batch.records, key, record) == 0
  if batch.large then
    add_to_orders(batch, key, record)
  elseif size >= SMALL or string.len(record) > LIGHT then
    if effort > 0 or size >= 4 * SMALL then -- many that grow in step are enlarged by and by
      enlarge(batch)
    end
  end
  return replaced
end

-- Take a record out of a batch; the answer is the record.
local function pull(batch, key)
  local record = call('HGET', batch.records, key)
  if record then
    remove_from_orders(batch, key, record)
    call('HDEL', batch.records, key)
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
  for _, member in ipairs(call('ZRANGE', batch.ages, 0, many - 1)) do
    local key = key_of(member)
    call('HDEL', batch.records, key)
    call('ZREM', batch.times, 'x' .. key, 'u' .. key)
  end
  call('ZREMRANGEBYRANK', batch.ages, 0, many - 1)
end

local function earliest_deadline(batch)
  local found = call('ZREVRANGEBYSCORE', batch.times, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and -tonumber(found[2]) - SHIFT or nil
end

local function delete_batch(batch)
  call('UNLINK', batch.records, batch.ages, batch.times)
end

local function rename(batch, place, has_orders)
  try('RENAME', batch.records, KEYS[place]) -- all records may be gone
  for offset, order in ipairs({ batch.ages, batch.times }) do
    if has_orders and call('EXISTS', order) == 1 then
      call('RENAME', order, KEYS[place + offset])
    end
  end
end

-- Take out up to `limit` expired records, fewer if they are heavy; the answer is how many, and how many of them only the
-- orders had: their values are gone.
local function expire(batch, now, limit)
  local old = {}
  if batch.large then
    local members = call('ZRANGEBYSCORE', batch.times, '(0', now + SHIFT, 'LIMIT', 0, limit)
    for place, member in ipairs(members) do
      old[place] = string.sub(member, 2)
    end
  else
    for key, record in each(batch) do
      local expires = expiry_of(record)
      effort = effort - 1
      if expires and expires <= now and #old < limit then
        table.insert(old, key)
      end
    end
  end
  local gone, missing = 0, 0
  while gone < #old and weight < HEAVY do
    gone = gone + 1
    local record = pull(batch, old[gone])
    if record then
      weight = weight + string.len(record)
    else
      remove_from_orders(batch, old[gone], '')
      missing = missing + 1
    end
  end
  return gone, missing
end

-- When the first record expires; nil is never.
local function earliest_expiry(batch)
  if batch.large then
    local found = call('ZRANGEBYSCORE', batch.times, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    return found[2] and tonumber(found[2]) - SHIFT or nil
  end
  local first
  for _, record in each(batch) do
    first = earlier(first, expiry_of(record))
  end
  return first
end

-- When the last record has expired; nil is never.
local function latest_expiry(batch)
  if batch.large then
    if call('ZCOUNT', batch.times, '(0', '+inf') < call('HLEN', batch.records) then
      return nil
    end
    return tonumber(call('ZREVRANGE', batch.times, 0, 0, 'WITHSCORES')[2]) - SHIFT
  end
  local last = -NEVER
  for _, record in each(batch) do
    last = math.max(last, expiry_of(record) or NEVER)
  end
  return last < NEVER and last or nil
end
