#!lua
-- Import pages of parcels from another store.
-- KEYS   12… per page: its timeline, the letter while it is not whole, and the letter: records, ages, times each;
--        last: notes (hash)
-- ARGV   4 {pages, fence, nameless}: each page is {id, kind, records of the parcel, done before, cursor, slot, letter,
--        times}; the times are {deadline, expiry} per record, false for none; the fence is the name and the holder of
--        the note that has to be there, or false; nameless: the payloads are JSON without the name of the codec
--        5… per record: key; timestamp and payload
-- Reply  per page {done, whether it is whole}; false if the timeline has an unfinished digest
-- include: parcels.lua
-- include: off.lua
-- include: plans.lua

local request = cmsgpack.unpack(ARGV[4])
if request.fence and call('HGET', KEYS[#KEYS], request.fence[1]) ~= request.fence[2] then
  return redis.error_reply('DIGESTIF_FENCED')
end
local WITH_LETTERS = STRIDE + 6 -- keys of a timeline and its letter, not yet whole and whole
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
    return key, packed(arrival, times[2] or nil, rest, request.nameless), times[1] or nil, times[2] or nil
  end
end

local function put_urgent(batch, key, deadline)
  if deadline then
    call('ZADD', batch.times, -(deadline + SHIFT), 'u' .. key)
  end
end

local function import_pending(timeline, page)
  local was_waiting, override = timeline.state == 'waiting', timeline.slot.override
  if page.done == 0 then
    timeline.slot = after_import_of_timeline(timeline.slot, page.slot)
  end
  if is_off(timeline.slot) then
    count('deleted', #page.times)
    arrival = arrival + #page.times
    empty(timeline)
    save_timeline(timeline)
    return true
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
    local dropped, deadline = page.done == 0 and held.dropped or 0, earliest_deadline(batch)
    after_import_of_pending(slot, now, dropped, held.opened, deadline, held.heavy)
  end
  count('pending', timeline.pending - before)
  if was_waiting and since_of(slot.override) ~= since_of(override) then
    plan(timeline, slot.override.terms, cool_down_of(slot.override, slot.iteration))
  end
  save_timeline(timeline)
  return true
end

local function import_digest(timeline, page, whole)
  local token = COMING .. page.id
  if page.done == 0 then
    if timeline.slot.digest then
      return false
    end
    timeline.slot = after_import_of_timeline(timeline.slot, page.slot)
    after_import_of_digest(timeline.slot, page.slot, token)
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
    after_import_completed(slot)
  end
  if is_off(slot) then -- the choice came with the digest, or was made here before it was whole
    empty(timeline)
  end
  save_timeline(timeline)
  return true
end

-- A letter has a name of its own until it is whole, so that no part of it is replayed.
local function import_letter(timeline, page, whole)
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
    rename(batch, place, true)
  else
    letter.id, letter.records = COMING .. page.id, done
  end
  write_letter(timeline, whole and place or coming, letter)
  return true
end

-- Each answers true, false if the parcel has to wait, or nil if earlier pages were deleted: then it starts over.
local IMPORTS = { pending = import_pending, digest = import_digest, letter = import_letter }

local function import_page(timeline, page)
  local noted = call('HGET', NOTES, page.id)
  local progress = noted and cmsgpack.unpack(noted) or { done = 0, whole = false }
  if progress.whole or progress.done ~= page.done then
    argument = argument + 2 * #page.times
    return { progress.done, progress.whole }
  end
  local done = page.done + #page.times
  local whole = done >= page.records
  local first = argument
  local imported = IMPORTS[page.kind](timeline, page, whole)
  argument = first + 2 * #page.times
  if imported == false then
    return false
  elseif not imported then
    call('HDEL', NOTES, page.id)
    return { 0, false }
  end
  local after = page.after or progress.after
  call('HSET', NOTES, page.id, cmsgpack.pack({ done = done, whole = whole, after = after }))
  return { done, whole }
end

for number, fields in ipairs(request.pages) do -- nothing is written before all is known to be sound
  local noted = call('HGET', NOTES, fields[1])
  local is_read, progress = pcall(cmsgpack.unpack, noted)
  if damage_of(timeline_number(number, WITH_LETTERS)) or (noted and not (is_read and type(progress) == 'table')) then
    return redis.error_reply('DIGESTIF_DAMAGED ' .. number)
  end
end
local progress = {}
for number, fields in ipairs(request.pages) do
  local id, kind, records, done, after, slot, letter, times = unpack(fields, 1, 8)
  progress[number] = import_page(timeline_number(number, WITH_LETTERS), {
    id = id,
    kind = kind,
    records = records,
    done = done,
    after = after or nil,
    slot = slot,
    letter = letter,
    times = times,
  })
end
return answer(cmsgpack.pack(progress), 'accepted', arrival)
