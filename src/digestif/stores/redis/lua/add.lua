#!lua
-- Accept records, in order, and place their timelines in the schedule.
-- KEYS   12… per timeline: its hash, ages, times
-- ARGV   4 the numbers of the policies, packed: each first_delay, increment, maximum, quiet, max_records, which delays
--        the call gave itself, where its openings begin, capacity, ttl; then openings: flags (1 hours, 2 urgent), how
--        many, times
--        5 packed for each record: which timeline and which policy, from 1, and `within`; one byte more asks for due times
--        6… per record: key; timestamp and payload
-- Reply  '1' per record that made its timeline ready for immediate delivery, else '0'; '!' per one that was not
--        accepted, because its timeline is damaged; then, packed, if asked for, when the timeline of each record is due
--        after it (NaN: not known); then which records (from 0) made how many be dropped
-- Unguarded  it looks for an earlier answer itself, and defines the functions for that only if it needs them
-- include: partition.lua

local TERMS = 72 -- bytes of a policy's numbers: one that is not set is NaN, a capacity that is not set is infinite
local noted, accepted, pending, layout, moving =
  unpack(call('HMGET', LEDGER, CALL, 'accepted', 'pending', 'layout', 'moving'))
-- include: layout.lua
local arrival = tonumber(accepted or 0)
pending = tonumber(pending or 0)
if not arrival or not pending then
  return redis.error_reply('DIGESTIF_LEDGER')
end
local loaded = {} -- timelines that need more than a record put in

-- The long way. Its functions are defined only when it is needed: they cost more than adding a record.
local function the_long_way()
  -- include: timelines.lua

  local function is_order(place)
    local kind = call('TYPE', KEYS[place]).ok
    return kind == 'zset' or kind == 'none'
  end

  -- The timeline; nil if it is damaged.
  local function timeline_at(place)
    local timeline = load_timeline(place)
    local slot = timeline.slot
    local has_orders = slot.large or slot.deadline
    if timeline.state == 'damaged' or (has_orders and not (is_order(place + 1) and is_order(place + 2))) then
      return nil
    end
    timeline.batch = batch_at(place, slot.large)
    loaded[place] = timeline
    return timeline
  end

  local function unless_nan(number)
    return number == number and number or nil
  end

  local function openings_at(place)
    if place ~= place then
      return nil
    end
    local flags, many = struct.unpack('>BH', ARGV[4], place)
    local numbers = { struct.unpack('>' .. string.rep('d', many), ARGV[4], place + 3) }
    numbers[many + 1] = nil -- where it ended
    return { numbers = numbers, hours = flags % 2 == 1, urgent = flags >= 2 }
  end

  local known_terms = {}
  local function terms_of(policy)
    if known_terms[policy] then
      return known_terms[policy]
    end
    local first, increment, maximum, quiet, max, given, openings, capacity, ttl =
      struct.unpack('>ddddddddd', ARGV[4], (policy - 1) * TERMS + 1)
    known_terms[policy] = {
      first_delay = first,
      increment = unless_nan(increment),
      maximum = maximum,
      quiet = unless_nan(quiet),
      max_records = unless_nan(max),
      given = given,
      openings = openings_at(openings),
      capacity = capacity,
      ttl = unless_nan(ttl),
    }
    return known_terms[policy]
  end

  -- Put the record among the pending ones, within capacity. Only a lowered one leaves many to drop: a page in a call.
  local allowed = 1000
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
    local dropped = math.min(math.max(timeline.pending - capacity, 0), math.max(allowed, 1))
    allowed = allowed - dropped
    drop_oldest(batch, dropped)
    timeline.pending = timeline.pending - dropped
    slot.dropped = dropped > 0 and (slot.dropped or 0) + dropped or slot.dropped
    slot.large = batch.large or nil
    count('dropped', dropped)
    pending = pending + timeline.pending - before
    return dropped
  end

  local function add(place, policy, key, rest, within)
    local timeline, terms = loaded[place] or timeline_at(place), terms_of(policy)
    if not timeline then
      return nil
    end
    local slot = timeline.slot
    if slot.override and slot.override.off then
      count('declined', 1)
      return false
    end
    local here = in_force(terms, slot.override)
    local was_idle, expires = slot.state == 'idle', here.ttl and now + here.ttl
    slot.first = timeline.pending == 0 and now or slot.first
    slot.expires = earlier(slot.expires, expires)
    arrival = arrival + 1
    local dropped = put_pending(timeline, key, packed(arrival, expires, rest), within, here.capacity)
    if within or slot.deadline then
      slot.deadline = earliest_deadline(timeline.batch)
    end
    after_add(slot, now, terms, timeline.pending, moving)
    return was_idle and slot.state == 'ready', dropped, next_delivery(slot)
  end

  -- When a timeline is due that a record joined the short way.
  local function due_of(stored)
    local is_read, slot = pcall(read_slot, stored)
    return is_read and slot and next_delivery(slot) or nil
  end

  return { add = add, due_of = due_of, save = save_timeline, answered = answered, answer = answer, count = count }
end

local fully
-- A new caller, or a call that was made before.
if not noted or #noted < 16 or struct.unpack('>d', noted) >= tonumber(ARGV[1]) then
  fully = the_long_way()
  local earlier_reply = fully.answered(noted)
  if earlier_reply then
    return earlier_reply
  end
end

local superseded = 0
local flags = {} -- by record, where it is not '0'
local drops = {} -- of records that made others be dropped: their numbers, and how many
local keys, arguments, read, write, byte = KEYS, ARGV, struct.unpack, struct.pack, string.byte -- globals are slow
local known, capacity, expires, expiry -- of the record before; the expiry is packed
local many = (#arguments - 6) / 2
local dues = #arguments[5] > many * 12 and {} or nil -- packed, by record
for number = 1, many do
  local timeline, policy, within = read('>HHd', arguments[5], number * 12 - 11)
  local key, rest = arguments[4 + number * 2], arguments[5 + number * 2]
  local place = 9 + timeline * 3
  local joins = false

  -- The short way, and the usual one: the timeline will be delivered anyway, and one record more changes nothing else.
  if within ~= within and not loaded[place] then
    local hash = keys[place]
    local slot = try('HGET', hash, '') -- an error, which is a table, if the key is no hash
    local kind = type(slot) == 'string' and #slot > 8 and byte(slot)
    local is_own = (kind == OWN or kind == OWN_LARGE) and #slot > 24
    if kind == JOINS or kind == JOINS_LARGE or is_own then
      if policy ~= known or is_own then
        local ttl
        known, capacity, ttl = policy, read('>dd', arguments[4], policy * TERMS - 15)
        if is_own then
          known, capacity, ttl = nil, read('>dd', slot, 9)
        end
        expires = ttl == ttl and now + ttl or NEVER
        expiry = write('>i7', expires)
      end
      local size = call('HLEN', hash) - 1
      joins = size < capacity and expires >= read('>i7', slot, 2)
      if kind == JOINS or kind == OWN then
        joins = joins and size < SMALL and #rest <= LIGHT
      elseif joins and call('HEXISTS', hash, key) == 0 then
        local noted_age = try('ZADD', keys[place + 1], read('>d', rest), write('>I8', arrival + 1) .. key)
        local noted_expiry = expires < NEVER and try('ZADD', keys[place + 2], expires + SHIFT, 'x' .. key)
        joins = type(noted_age) ~= 'table' and type(noted_expiry) ~= 'table'
      else
        joins = false
      end
      if joins then
        arrival = arrival + 1
        local fresh = call('HSET', hash, key, write('>I5', arrival) .. expiry .. rest)
        pending, superseded = pending + fresh, superseded + 1 - fresh
        if dues then
          fully = fully or the_long_way()
          dues[number] = write('>d', fully.due_of(slot) or 0 / 0)
        end
      end
    end
  end

  if not joins then
    fully = fully or the_long_way()
    local is_ready, dropped, due = fully.add(place, policy, key, rest, within == within and within or nil)
    if is_ready ~= false then
      flags[number] = is_ready and '1' or '!'
    end
    if dues then
      dues[number] = write('>d', due or 0 / 0)
    end
    if dropped and dropped > 0 then
      drops[#drops + 1] = write('>HH', number - 1, dropped)
    end
  end
end

local reply = string.rep('0', many)
if next(flags) then
  for number = 1, #reply do
    flags[number] = flags[number] or '0'
  end
  reply = table.concat(flags)
end
reply = reply .. (dues and table.concat(dues) or '') .. table.concat(drops)
if not fully and superseded == 0 then
  local noting = struct.pack('>dd', ARGV[1], clock) .. reply
  call('HSET', LEDGER, CALL, noting, 'accepted', arrival, 'pending', pending)
  return reply
end
fully = fully or the_long_way()
for _, timeline in pairs(loaded) do
  fully.save(timeline)
end
fully.count('superseded', superseded)
return fully.answer(reply, 'accepted', arrival, 'pending', pending)
