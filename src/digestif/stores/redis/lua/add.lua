#!lua
-- Accept records, in order, and place their timelines in the schedule.
-- KEYS   13… per timeline: its hash, ages, times
-- ARGV   3 {terms, records}: the numbers of the policies; per record its timeline (from 1), terms (from 1), within or nil
--        4… per record: key, timestamp and payload
-- Reply  '1' per record that made its timeline ready for immediate delivery, else '0'
-- include: slots.lua
-- include: batches.lua
-- include: placing.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[3])
local arrival = call('HINCRBY', LEDGER, 'accepted', #request.records) - #request.records
local timelines = {}

local function timeline_at(number)
  local timeline = timelines[number]
  if not timeline then
    timeline = load_timeline(TIMELINES + (number - 1) * 3)
    timeline.batch = batch_at(timeline.place)
    timelines[number] = timeline
  end
  return timeline
end

-- Put the record among the pending ones, within capacity; the answer says whether deadlines may have changed.
local function join(timeline, key, record, within, capacity)
  local slot, batch, before = timeline.slot, timeline.batch, timeline.pending
  if not put(batch, key, record, slot.deadline, before) then
    timeline.pending = before + 1
  else
    count('superseded', 1)
  end
  if within then
    call('ZADD', batch.times, -(now + within + SHIFT), 'u' .. key)
  end
  local dropped = capacity and math.max(timeline.pending - capacity, 0) or 0
  if dropped > 0 then
    dropped = math.min(dropped, 500) -- the rest at the next adds: only a lowered capacity leaves so many
    drop_oldest(batch, dropped)
    timeline.pending = timeline.pending - dropped
    slot.dropped = (slot.dropped or 0) + dropped
    count('dropped', dropped)
    timeline.changed = true
  end
  count('pending', timeline.pending - before)
end

local function add(timeline, key, rest, within, terms)
  local slot = timeline.slot
  local was_idle, at, expires = slot.state == 'idle', slot.at, terms.ttl and now + terms.ttl
  if timeline.pending == 0 then
    slot.first, timeline.changed = now, true
  end
  arrival = arrival + 1
  join(timeline, key, packed(arrival, expires, rest), within, terms.capacity)
  if within or slot.deadline then
    slot.deadline, timeline.changed = earliest_deadline(timeline.batch), true
  end
  if expires and (not slot.expires or expires < slot.expires) then
    slot.expires, timeline.changed = expires, true
  end
  after_add(slot, now, terms, timeline.pending)
  timeline.changed = timeline.changed or was_idle or slot.at ~= at or slot.state == 'waiting'
  return was_idle and slot.state == 'ready'
end

local ready = {}
for number, record in ipairs(request.records) do
  local timeline = timeline_at(record[1])
  local key, rest = ARGV[2 + number * 2], ARGV[3 + number * 2]
  ready[number] = add(timeline, key, rest, record[3] or nil, request.terms[record[2]]) and '1' or '0'
end
for _, timeline in pairs(timelines) do
  if timeline.changed then
    save_timeline(timeline)
  end
end
return answer(table.concat(ready))
