#!lua
-- Take in pages of parcels that come from another store.
-- KEYS   12… per page: its timeline, the letter while it is not whole, and the letter: records, ages, times each;
--        last: notes (hash)
-- ARGV   4 {pages, fence}: the name and the holder of the note that has to be there, or false; each page is
--        {id, freight, records of the parcel, done before, cursor, slot, letter, times}; the times are {deadline,
--        expiry} per record, false for none
--        5… per record: key; timestamp and payload
-- Reply  per page {done, whether it is whole}; false if the timeline has an unfinished digest
-- include: ending.lua
-- include: transfer.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
if request.fence and call('HGET', KEYS[#KEYS], request.fence[1]) ~= request.fence[2] then
  return redis.error_reply('DIGESTIF_FENCED')
end
local APART = STRIDE + 6 -- keys of a timeline and its letter, coming and whole
local NOTES = KEYS[#KEYS]
local argument = 5 -- where the next record is
local arrival = tonumber(call('HGET', LEDGER, 'accepted') or 0)

-- Each record of a page, as key, record, deadline and expiry.
local function records_of(page)
  local number = 0
  return function()
    number = number + 1
    local times = page.times[number]
    if not times then
      return nil
    end
    local key, rest = ARGV[argument], ARGV[argument + 1]
    argument = argument + 2
    arrival = arrival + 1
    return key, packed(arrival, times[2] or nil, rest), times[1] or nil, times[2] or nil
  end
end

local function put_urgent(batch, key, deadline)
  if deadline then
    call('ZADD', batch.times, -(deadline + SHIFT), 'u' .. key)
  end
end

local function unload_pending(timeline, page)
  if page.done == 0 then
    timeline.slot = after_meeting(timeline.slot, page.slot)
  end
  local slot, batch, before = timeline.slot, pending_of(timeline), timeline.pending
  for key, record, deadline, expires in records_of(page) do
    local known = call('HGET', batch.records, key)
    if known then
      count('superseded', 1)
    end
    if not known or timestamp_of(known) <= timestamp_of(record) then
      put(batch, key, record, true, timeline.pending)
      put_urgent(batch, key, deadline)
      timeline.pending = timeline.pending + (known and 0 or 1)
      slot.expires = earlier(slot.expires, expires)
    end
  end
  if #page.times > 0 then
    slot.large = batch.large or nil
    local held = page.slot.digest
    after_joining(slot, now, page.done == 0 and held.dropped or 0, held.opened, earliest_deadline(batch))
  end
  count('pending', timeline.pending - before)
  save_timeline(timeline)
  return true
end

local function unload_digest(timeline, page, whole)
  local token = COMING .. page.id
  if page.done == 0 then
    if timeline.slot.digest then
      return false
    end
    timeline.slot = after_meeting(timeline.slot, page.slot)
    after_boarding(timeline.slot, page.slot, token)
  elseif timeline.slot.token ~= token then
    return nil
  end
  local slot = timeline.slot
  local digest, batch = slot.digest, digest_of(timeline)
  for key, record, deadline, expires in records_of(page) do
    put(batch, key, record, false, digest.records)
    put_urgent(batch, key, deadline)
    digest.records = digest.records + 1
    digest.expires = earlier(digest.expires, expires)
  end
  count('open', #page.times)
  if whole then
    unparked(slot)
  end
  save_timeline(timeline)
  return true
end

-- Under a name of its own until it is whole, so that nobody replays a part of it.
local function unload_letter(timeline, page, whole)
  local coming, place = timeline.place + STRIDE, timeline.place + STRIDE + 3
  local part = read_letter(coming, timeline.name)
  local letter = page.letter
  local batch, done = batch_found_at(coming), page.done
  if done > 0 and not part then
    return nil
  end
  if part then
    unlist_letter(part, KEYS[timeline.place + DEAD])
    call('HDEL', KEYS[coming], '')
  end
  for key, record, deadline in records_of(page) do
    put(batch, key, record, false, done)
    put_urgent(batch, key, deadline)
    done = done + 1
  end
  count('dead', #page.times)
  if whole then
    rename(batch, place)
  else
    letter.id, letter.records = COMING .. page.id, done
  end
  write_letter(timeline, whole and place or coming, letter)
  return true
end

-- Each answers true, false if it has to wait, or nil if what came before was deleted: then it starts over.
local UNLOAD = { pending = unload_pending, digest = unload_digest, letter = unload_letter }

local function arrive(timeline, page)
  local noted = call('HGET', NOTES, page.id)
  local mark = noted and cmsgpack.unpack(noted) or { done = 0, whole = false }
  if mark.whole or mark.done ~= page.done then
    argument = argument + 2 * #page.times
    return { mark.done, mark.whole }
  end
  local done = page.done + #page.times
  local whole = done >= page.records
  local first = argument
  local taken = UNLOAD[page.freight](timeline, page, whole)
  argument = first + 2 * #page.times
  if taken == false then
    return false
  elseif not taken then
    call('HDEL', NOTES, page.id)
    return { 0, false }
  end
  local after = page.after or mark.after
  call('HSET', NOTES, page.id, cmsgpack.pack({ done = done, whole = whole, after = after }))
  return { done, whole }
end

for number, told in ipairs(request.pages) do -- nothing is written before all is known to be sound
  local noted = call('HGET', NOTES, told[1])
  local is_read, mark = pcall(cmsgpack.unpack, noted)
  if damage_of(timeline_number(number, APART)) or (noted and not (is_read and type(mark) == 'table')) then
    return redis.error_reply('DIGESTIF_DAMAGED ' .. number)
  end
end
local marks_of = {}
for number, told in ipairs(request.pages) do
  local id, freight, records, done, after, slot, letter, times = unpack(told)
  marks_of[number] = arrive(timeline_number(number, APART), {
    id = id,
    freight = freight,
    records = records,
    done = done,
    after = after or nil,
    slot = slot,
    letter = letter,
    times = times,
  })
end
return answer(cmsgpack.pack(marks_of), 'accepted', arrival)
