-- include: batches.lua
-- Reading a batch newest first, a page at a time.

-- The first rank, of `ties` equal scores from rank `base` on, whose member does not come before the cut.
local function cut_ties(base, ties, member_at, is_before)
  local low, high = base, base + ties
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(member_at(middle)) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- How many records are as new as the cursor or newer.
local function rank_after(batch, after)
  local timestamp, arrival = string.format('%.17g', after[1]), after[2]
  local newer = call('ZCOUNT', batch.ages, '(' .. timestamp, '+inf')
  local ties = call('ZCOUNT', batch.ages, timestamp, timestamp)
  return cut_ties(newer, ties, function(rank)
    return call('ZREVRANGE', batch.ages, rank, rank)[1]
  end, function(member)
    return struct.unpack('>I8', member) >= arrival
  end)
end

local function page_of_large(batch, after, limit, room)
  local start = after and rank_after(batch, after) or 0
  local members = call('ZREVRANGE', batch.ages, start, start + limit - 1)
  local flat, bytes = {}, 0
  for number, member in ipairs(members) do
    local key = key_of(member)
    local record = call('HGET', batch.records, key) or ''
    flat[number * 2 - 1], flat[number * 2] = key, record
    bytes = bytes + string.len(record)
    if bytes >= room then
      return flat, false, bytes
    end
  end
  return flat, #members < limit, bytes
end

local function is_newer(one, other)
  if one.timestamp ~= other.timestamp then
    return one.timestamp > other.timestamp
  end
  return one.arrival > other.arrival
end

local function newest_first(batch)
  local sorted = {}
  for key, record in each(batch) do
    table.insert(sorted, { key = key, record = record, timestamp = timestamp_of(record), arrival = arrival_of(record) })
  end
  table.sort(sorted, is_newer)
  return sorted
end

local function page_of_small(batch, after, limit, room)
  local cursor = after and { timestamp = after[1], arrival = after[2] }
  local flat, bytes = {}, 0
  for _, item in ipairs(newest_first(batch)) do
    if not cursor or is_newer(cursor, item) then
      if #flat == limit * 2 or bytes >= room then
        return flat, false, bytes
      end
      table.insert(flat, item.key)
      table.insert(flat, item.record)
      bytes = bytes + string.len(item.record)
    end
  end
  return flat, true, bytes
end

-- All records of a small batch, unsorted: the client sorts them.
local function whole_of_small(batch)
  local flat, bytes = call('HGETALL', batch.records), 0
  for place = #flat - 1, 1, -2 do
    if flat[place] == '' then -- the slot of a timeline, or a dead letter's own field
      table.remove(flat, place)
      table.remove(flat, place)
    else
      bytes = bytes + string.len(flat[place + 1])
    end
  end
  return flat, bytes
end

-- Up to `limit` records as a flat list of keys and records, whether these were the last, and their bytes. A page ends
-- with the record that fills the room, which is in bytes.
local function page(batch, after, limit, room)
  if batch.large then
    return page_of_large(batch, after, limit, room)
  end
  if after or call('HLEN', batch.records) > limit then
    return page_of_small(batch, after, limit, room)
  end
  local flat, bytes = whole_of_small(batch)
  if bytes > room then
    return page_of_small(batch, after, limit, room)
  end
  return flat, true, bytes
end

-- The keys of the oldest records of a batch that has orders.
local function oldest_of_large(batch, limit)
  local keys = {}
  for number, member in ipairs(call('ZRANGE', batch.ages, 0, limit - 1)) do
    keys[number] = key_of(member)
  end
  return keys
end

local function oldest_keys(batch, limit)
  if batch.large then
    return oldest_of_large(batch, limit)
  end
  local keys, sorted = {}, newest_first(batch)
  for place = #sorted, math.max(1, #sorted - limit + 1), -1 do
    table.insert(keys, sorted[place].key)
  end
  return keys
end

-- The keys of the newest records; of any records, once the call has used up its effort.
local function newest_keys(batch, limit)
  local keys = {}
  if batch.large then
    for number, member in ipairs(try('ZREVRANGE', batch.ages, 0, limit - 1)) do
      keys[number] = key_of(member)
    end
    return keys
  end
  if effort <= 0 then
    for _, key in ipairs(try('HKEYS', batch.records)) do
      if key ~= '' and #keys < limit then
        table.insert(keys, key)
      end
    end
    return keys
  end
  for number, item in ipairs(newest_first(batch)) do
    keys[number] = number <= limit and item.key or nil
    effort = effort - 1
  end
  return keys
end
