-- include: batches.lua
-- When the records of a batch expire.

local weight = 0 -- bytes of the records that this call took out

-- Take up to `limit` expired records out, unless they are heavy; the answer is how many.
local function expire(batch, now, limit)
  local old = {}
  if batch.large then
    local members = redis.call('ZRANGEBYSCORE', batch.times, '(0', now + SHIFT, 'LIMIT', 0, limit)
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
  local gone = 0
  while gone < #old and weight < HEAVY do
    gone = gone + 1
    weight = weight + string.len(pull(batch, old[gone]))
  end
  return gone
end

-- When the first record expires; nil is never.
local function earliest_expiry(batch)
  if batch.large then
    local found = redis.call('ZRANGEBYSCORE', batch.times, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
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
    if redis.call('ZCOUNT', batch.times, '(0', '+inf') < redis.call('HLEN', batch.records) then
      return nil
    end
    return tonumber(redis.call('ZREVRANGE', batch.times, 0, 0, 'WITHSCORES')[2]) - SHIFT
  end
  local last = -NEVER
  for _, record in each(batch) do
    last = math.max(last, expiry_of(record) or NEVER)
  end
  return last < NEVER and last or nil
end
