#!lua flags=no-writes
-- Read a page of a batch for another store, oldest first.
-- KEYS   1 records  2 ages  3 times
-- ARGV   1 limit  2 {timestamp, arrival} of the record to go on after, or empty
-- Reply  a list of key, record and deadline, which may be empty, in turn
-- include: pages.lua

local function oldest_of_large(batch, after, limit)
  local start = after and call('ZCARD', batch.ages) - rank_after(batch, after) + 1 or 0
  local keys = {}
  for number, member in ipairs(call('ZRANGE', batch.ages, start, start + limit - 1)) do
    keys[number] = key_of(member)
  end
  return keys
end

local function oldest_of_small_batch(batch, after, limit)
  local cursor = after and { timestamp = after[1], arrival = after[2] }
  local sorted, keys = newest_first(batch), {}
  for place = #sorted, 1, -1 do
    if #keys < limit and (not cursor or is_newer(sorted[place], cursor)) then
      table.insert(keys, sorted[place].key)
    end
  end
  return keys
end

local after = ARGV[2] ~= '' and cmsgpack.unpack(ARGV[2]) or nil
local batch, limit = batch_found_at(1), tonumber(ARGV[1])
local keys = batch.large and oldest_of_large(batch, after, limit) or oldest_of_small_batch(batch, after, limit)
local urgent = call('ZCOUNT', batch.times, '-inf', '(0') > 0
local flat, bytes = {}, 0
for _, key in ipairs(keys) do
  local record = call('HGET', batch.records, key) or ''
  local score = urgent and call('ZSCORE', batch.times, 'u' .. key)
  table.insert(flat, key)
  table.insert(flat, record)
  table.insert(flat, score and string.format('%.0f', -tonumber(score) - SHIFT) or '')
  bytes = bytes + string.len(record)
  if bytes > HEAVY then
    break
  end
end
return flat
