#!lua
-- Accept records, in order, and place their timelines in the schedule.
-- KEYS   12… per timeline: its hash, ages, times
-- ARGV   4 the numbers of the policies, packed: each first_delay, increment, maximum, quiet, max_records, capacity, ttl
--        5 packed for each record: which timeline and which policy, from 1, and `within`
--        6… per record: key; timestamp and payload
-- Reply  '1' per record that made its timeline ready for immediate delivery, else '0'
-- include: calls.lua
-- include: records.lua

local noted, accepted, pending = unpack(call('HMGET', LEDGER, CALL, 'accepted', 'pending'))
local earlier_reply = answered(noted)
if earlier_reply then
  return earlier_reply
end

local TERMS = 56 -- bytes of a policy's numbers; what is not set is not a number, or for the capacity infinite
local arrival = tonumber(accepted or 0)
local loaded = {} -- timelines that need more than a record put in

-- Counting costs as much as putting a record in. So a small batch that has a large capacity is counted at every 16th
-- arrival or so, well spread, and may grow a little larger than it should before it is noticed.
local function is_full(kind, hash, capacity)
  if kind == JOINS and capacity > 4 * SMALL and arrival * 0.6180339887498949 % 1 > 0.0625 then
    return false
  end
  local size = call('HLEN', hash) - 1
  return size >= capacity or (kind == JOINS and size >= SMALL)
end

-- The short way, and the usual one: the timeline is on its way to a delivery, and a record more changes nothing else.
local function join(place, policy, key, rest)
  local hash = KEYS[place]
  local slot = call('HGET', hash, '')
  local kind = slot and string.byte(slot)
  if kind ~= JOINS and kind ~= JOINS_LARGE then
    return false
  end
  local capacity, ttl = struct.unpack('>dd', ARGV[4], policy * TERMS - 15)
  local expires = ttl == ttl and now + ttl or NEVER
  if expires < struct.unpack('>i7', slot, 2) or is_full(kind, hash, capacity) then
    return false
  end
  if kind == JOINS and string.len(rest) > LIGHT then
    return false
  end
  if kind == JOINS_LARGE then
    if call('HEXISTS', hash, key) == 1 then
      return false
    end
    call('ZADD', KEYS[place + 1], struct.unpack('>d', rest), struct.pack('>I8', arrival + 1) .. key)
    if expires < NEVER then
      call('ZADD', KEYS[place + 2], expires + SHIFT, 'x' .. key)
    end
  end
  arrival = arrival + 1
  if call('HSET', hash, key, packed(arrival, expires, rest)) == 1 then
    pending = pending + 1
  else
    count('superseded', 1)
  end
  return true
end

-- The long way, made only when it is needed: a script defines its functions anew at each call.
local function the_long_way()
  -- include: slots.lua
  -- include: batches.lua
  -- include: placing.lua

  local function timeline_at(place)
    local timeline = load_timeline(place)
    timeline.batch = batch_at(place, timeline.slot.large)
    loaded[place] = timeline
    return timeline
  end

  local function set(number)
    return number == number and number or nil
  end

  local function terms_of(policy)
    local first, increment, maximum, quiet, max, capacity, ttl =
      struct.unpack('>ddddddd', ARGV[4], (policy - 1) * TERMS + 1)
    return {
      first_delay = first,
      increment = set(increment),
      maximum = maximum,
      quiet = set(quiet),
      max_records = set(max),
      capacity = capacity,
      ttl = set(ttl),
    }
  end

  -- Put the record among the pending ones, within capacity.
  local function put_pending(timeline, key, record, within, capacity)
    local slot, batch, before = timeline.slot, timeline.batch, timeline.pending
    if put(batch, key, record, slot.deadline, before) then
      count('superseded', 1)
    else
      timeline.pending = before + 1
    end
    if within then
      call('ZADD', batch.times, -(now + within + SHIFT), 'u' .. key)
    end
    local dropped = math.min(math.max(timeline.pending - capacity, 0), DROPPED)
    drop_oldest(batch, dropped)
    timeline.pending = timeline.pending - dropped
    slot.dropped = dropped > 0 and (slot.dropped or 0) + dropped or slot.dropped
    slot.large = batch.large or nil
    count('dropped', dropped)
    pending = pending + timeline.pending - before
  end

  return function(place, policy, key, rest, within)
    local timeline, terms = loaded[place] or timeline_at(place), terms_of(policy)
    local slot = timeline.slot
    local was_idle, expires = slot.state == 'idle', terms.ttl and now + terms.ttl
    slot.first = timeline.pending == 0 and now or slot.first
    slot.expires = earlier(slot.expires, expires)
    arrival = arrival + 1
    put_pending(timeline, key, packed(arrival, expires, rest), within, terms.capacity)
    if within or slot.deadline then
      slot.deadline = earliest_deadline(timeline.batch)
    end
    after_add(slot, now, terms, timeline.pending)
    return was_idle and slot.state == 'ready'
  end, save_timeline
end

local ready = {}
pending = tonumber(pending or 0)
local add_fully, save
for number = 1, (#ARGV - 5) / 2 do
  local timeline, policy, within = struct.unpack('>HHd', ARGV[5], number * 12 - 11)
  local key, rest = ARGV[4 + number * 2], ARGV[5 + number * 2]
  local place = TIMELINES + (timeline - 1) * 3
  local is_urgent = within == within
  ready[number] = '0'
  if loaded[place] or is_urgent or not join(place, policy, key, rest) then
    if not add_fully then
      add_fully, save = the_long_way()
    end
    if add_fully(place, policy, key, rest, is_urgent and within or nil) then
      ready[number] = '1'
    end
  end
end
for _, timeline in pairs(loaded) do
  save(timeline)
end
return answer(table.concat(ready), 'accepted', arrival, 'pending', pending)
