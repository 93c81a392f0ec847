#!lua
-- Accept records, in order, and place their timelines in the schedule.
-- KEYS   12… the hash of each timeline, then ages and times of the first ones: of those that may need them
-- ARGV   1 number of the call; '+' before it: it follows the call before it, which has no answer yet
--        4 the numbers of the policies, packed: each first_delay, increment, maximum, quiet, max_records, which delays
--        the call gave itself, where its openings begin, capacity, ttl; then openings: flags (1 hours, 2 urgent), how
--        many, times
--        5 packed for each record: which timeline and which policy, from 1, and `within`; or, if there is one policy
--        and no `within`, '+' for the first record of each timeline and '=' for the others; then one byte: 1 asks for
--        due times, 2 says that the payloads are JSON without the name of the codec; then of how many timelines the
--        orders are declared
--        6… per record: key; timestamp and payload; those of a timeline together
-- Reply  '1' per record that made its timeline ready for immediate delivery, else '0'; per one that was not accepted '!'
--        if its timeline is damaged, '?' if it needs orders that are not declared; then, packed, if asked for, when the
--        timeline of each record is due after it (NaN: not known); then which records (from 0) made how many be dropped
-- Unguarded  it looks for an earlier answer itself, and defines the functions for that only if it needs them
-- include: partition.lua

local FOLLOWS, NEXT, SAME = 43, 43, 61 -- '+', '+' and '='
local TERMS = 72 -- bytes of a policy's numbers: one that is not set is NaN, a capacity that is not set is infinite
local noted, accepted, pending, layout, moving =
  unpack(call('HMGET', LEDGER, CALL, 'accepted', 'pending', 'layout', 'moving'))
-- include: layout.lua
local number, follows = tonumber(ARGV[1]), string.byte(ARGV[1]) == FOLLOWS
local last = noted and #noted >= REPLIES and struct.unpack('>d', noted) -- the caller's last call
local arrival = tonumber(accepted or 0)
pending = tonumber(pending or 0)
if not arrival or not pending then
  return redis.error_reply('DIGESTIF_LEDGER')
end
local loaded = {} -- timelines that need more than a record put in, by number
local wishes, ordered = struct.unpack('>BH', ARGV[5], #ARGV[5] - 2)
local asks_due, nameless = wishes % 2 == 1, wishes >= 2
local HASHES = TIMELINES - 1 -- the hash of the first timeline is behind them
local ORDERS = #KEYS - 2 * ordered - 1 -- its ages are two behind, if they are declared

-- The long way. Its functions are defined only when it is needed: they cost more than adding a record. It has names of
-- its own, and uses none of those above: each would cost as much as a tenth of a record, at every call.
local function the_long_way(clock, now, moving, loaded, nameless, ordered)
  -- include again: basics.lua
  -- include again: names.lua
  -- include: timelines.lua
  local WHOLE = 13 -- bytes before the timestamp of a record, at most
  local TERMS = 72 -- bytes of a policy's numbers
  local ORDERS = #KEYS - 2 * ordered - 1

  local function is_order(key)
    local kind = call('TYPE', key).ok
    return kind == 'zset' or kind == 'none'
  end

  -- The timeline; nil if it is damaged.
  local function timeline_of(number)
    local timeline = load_timeline(TIMELINES - 1 + number)
    local slot, batch = timeline.slot, { records = timeline.key }
    if number <= ordered then
      batch.ages, batch.times = KEYS[ORDERS + 2 * number], KEYS[ORDERS + 2 * number + 1]
    end
    local has_orders = batch.ages and (slot.large or slot.deadline)
    if timeline.state == 'damaged' or (has_orders and not (is_order(batch.ages) and is_order(batch.times))) then
      return nil
    end
    batch.large = slot.large
    timeline.batch = batch
    loaded[number] = timeline
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
    slot.large, slot.heavy = batch.large or nil, slot.heavy or #record > USUAL_PAYLOAD or nil
    count('dropped', dropped)
    return dropped
  end

  -- Whether a record can't be put in without the orders of its timeline; more often than needed if it is heavy. None
  -- overtakes one that was left out.
  local function needs_orders(timeline, rest, within, capacity)
    local many = timeline.pending
    local is_heavy = #rest + WHOLE > LIGHT
    local has_orders = timeline.slot.deadline or timeline.batch.large
    return timeline.leaves_out or within or has_orders or is_heavy or many >= SMALL or many >= capacity
  end

  -- The flag of a record. If it is put in, with this arrival number: by how much more is pending, how many it made be
  -- dropped, and when its timeline is due.
  local function add(arrival, number, policy, key, rest, within)
    local timeline, terms = loaded[number] or timeline_of(number), terms_of(policy)
    if not timeline then
      return '!'
    end
    local slot, before = timeline.slot, timeline.pending
    if slot.override and slot.override.off then
      count('declined', 1)
      return '0'
    end
    local here = in_force(terms, slot.override)
    if not timeline.batch.ages and needs_orders(timeline, rest, within, here.capacity) then
      timeline.leaves_out = true
      return '?'
    end
    local was_idle, expires = slot.state == 'idle', here.ttl and now + here.ttl
    slot.first = timeline.pending == 0 and now or slot.first
    slot.expires = earlier(slot.expires, expires)
    local dropped = put_pending(timeline, key, packed(arrival, expires, rest, nameless), within, here.capacity)
    if within or slot.deadline then
      slot.deadline = earliest_deadline(timeline.batch)
    end
    after_add(slot, now, terms, timeline.pending, moving)
    local flag = was_idle and slot.state == 'ready' and '1' or '0'
    return flag, timeline.pending - before, dropped, next_delivery(slot)
  end

  -- When a timeline is due that a record joined the short way.
  local function due_of(stored)
    local is_read, slot = pcall(read_slot, stored)
    return is_read and slot and next_delivery(slot) or nil
  end

  local function finish_call(superseded)
    for _, timeline in pairs(loaded) do
      save_timeline(timeline)
    end
    count('superseded', superseded)
    finish()
  end

  return { add = add, due_of = due_of, answered = answered, finish = finish_call }
end

local fully
local is_repeated = last and last >= number
local is_early = follows and last and last < number - 1
if not last or is_repeated or is_early then
  fully = the_long_way(clock, now, moving, loaded, nameless, ordered)
  local earlier_answer = fully.answered(noted, follows)
  if earlier_answer then
    return earlier_answer
  end
end

local superseded = 0
local flags -- by record, where it is not '0'; nil if all are
local drops = '' -- of records that made others be dropped: their numbers, and how many, packed
local keys, arguments, read, write, byte = KEYS, ARGV, struct.unpack, struct.pack, string.byte -- globals are slow
local known, capacity, expires, form, expiry -- of the record before; the last one packed
local looked_at, slot, kind, is_own, size -- of its timeline, if it joined that
local many = (#arguments - 6) / 2
local whereabouts = arguments[5]
local is_plain = #whereabouts == many + 3
local dues = asks_due and {} or nil -- packed, by record
local may_go_together = is_plain and not dues
local timeline, policy, within = 0, 1, 0 / 0
local record = 1
while record <= many do
  if not is_plain then
    timeline, policy, within = read('>HHd', whereabouts, record * 12 - 11)
  elseif byte(whereabouts, record) == NEXT then
    timeline = timeline + 1
  end
  local key, rest = arguments[4 + record * 2], arguments[5 + record * 2]
  local joins, together = false, 1 -- records that are put in by one command

  -- The short way, and the usual one: the timeline will be delivered anyway, and one record more changes nothing else.
  local is_ordinary = within ~= within and not loaded[timeline]
  if is_ordinary then
    local hash = keys[HASHES + timeline]
    if timeline ~= looked_at then
      looked_at, slot = timeline, try('HGET', hash, '') -- an error, which is a table, if the key is no hash
      kind = type(slot) == 'string' and #slot > 8 and byte(slot)
      is_own = (kind == OWN or kind == OWN_LARGE) and #slot > 24
      if kind == JOINS or kind == JOINS_LARGE or is_own then
        size = call('HLEN', hash) - 1
      else
        size = nil
      end
    end
    if size then
      local is_known = policy == known and not is_own
      if not is_known then
        local limits, ttl = is_own and slot or arguments[4], nil
        capacity, ttl = read('>dd', limits, limits == slot and 9 or policy * TERMS - 15)
        known = not is_own and policy
        expires = ttl == ttl and now + ttl or NEVER
        form = FORM + (nameless and NAMELESS or 0) + (expires < NEVER and EXPIRES or 0)
        expiry = expires < NEVER and write('>i7', expires) or ''
      end
      local fits = size < capacity and expires >= read('>i7', slot, 2)
      if kind == JOINS or kind == OWN then
        local stays_small = fits and size < SMALL and #rest <= LIGHT
        joins = stays_small
      elseif fits and timeline <= ordered then
        local is_usual = #rest <= USUAL_PAYLOAD
        local is_new = is_usual and call('HEXISTS', hash, key) == 0
        if is_new then
          local ages = ORDERS + 2 * timeline
          local noted_age = try('ZADD', keys[ages], read('>d', rest), write('>I8', arrival + 1) .. key)
          local noted_expiry = expires < NEVER and try('ZADD', keys[ages + 1], expires + SHIFT, 'x' .. key)
          joins = type(noted_age) ~= 'table' and type(noted_expiry) ~= 'table'
        end
      end
      if joins then
        arrival = arrival + 1
        local value, fresh = write('>BI5', form, arrival) .. expiry .. rest, nil
        -- The next records of the same timeline go along, as long as each of them would join in this way.
        if may_go_together and byte(whereabouts, record + 1) == SAME and (kind == JOINS or kind == OWN) then
          local parts, room = { key, value }, math.min(capacity, SMALL) - size
          while together < room and byte(whereabouts, record + together) == SAME do
            local place = 4 + (record + together) * 2
            local goes_along = #arguments[place + 1] <= LIGHT
            if not goes_along then
              break
            end
            arrival, together = arrival + 1, together + 1
            parts[together * 2 - 1] = arguments[place]
            parts[together * 2] = write('>BI5', form, arrival) .. expiry .. arguments[place + 1]
          end
          fresh = call('HSET', hash, unpack(parts))
        else
          fresh = call('HSET', hash, key, value)
        end
        size, pending, superseded = size + fresh, pending + fresh, superseded + together - fresh
        if dues then
          fully = fully or the_long_way(clock, now, moving, loaded, nameless, ordered)
          dues[record] = write('>d', fully.due_of(slot) or 0 / 0)
        end
      end
    end
  end

  if not joins then
    fully = fully or the_long_way(clock, now, moving, loaded, nameless, ordered)
    local flag, more, dropped, due =
      fully.add(arrival + 1, timeline, policy, key, rest, within == within and within or nil)
    if more then
      arrival, pending = arrival + 1, pending + more
    end
    if flag ~= '0' then
      flags = flags or {}
      flags[record] = flag
    end
    if dues then
      dues[record] = write('>d', due or 0 / 0)
    end
    if dropped and dropped > 0 then
      drops = drops .. write('>HH', record - 1, dropped)
    end
  end
  local next_record = record + together
  record = next_record
end

local reply = string.rep('0', many)
if flags then
  for record = 1, #reply do
    flags[record] = flags[record] or '0'
  end
  reply = table.concat(flags)
end
reply = reply .. (dues and table.concat(dues) or '') .. drops
if fully or superseded > 0 then
  fully = fully or the_long_way(clock, now, moving, loaded, nameless, ordered)
  fully.finish(superseded)
end
local kept = ''
if follows then
  local behind = REPLIES
  for _ = 2, KEPT_REPLIES do
    behind = behind < #noted and behind + 4 + read('>I4', noted, behind) or behind
  end
  kept = string.sub(noted, REPLIES, behind - 1)
end
local note = write('>ddI4', number, clock, #reply) .. reply .. kept
call('HSET', LEDGER, CALL, note, 'accepted', arrival, 'pending', pending)
return reply
