#!lua flags=allow-oom
-- Delete a timeline with everything that belongs to it, as far as its keys are declared.
-- KEYS   12… the timeline, then per dead letter: records, ages, times
-- ARGV   4 {letters, entries, ring, token}: how many letters; places and numbers of its entries in the history; the size
--        of its rings; of a lease
-- Reply  '1', or '0' if there was nothing, or the token is stale
-- include: endings.lua
-- include: losses.lua
-- include: removals.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
if damage_of(timeline) then
  return damage_of(timeline)
end
local slot = timeline.slot
local is_stale = request.token and not is_held(slot, request.token, now)
if is_stale then
  return answer('0')
end

local function delete_entry(place, number)
  local is_read, entry = pcall(cmsgpack.unpack, call('HGET', HISTORY, place))
  if is_read and type(entry) == 'table' and entry.number == number then
    call('HDEL', HISTORY, place)
  end
end

local function delete_letters()
  local gone, records = 0, 0
  for number = 1, request.letters do
    local place = TIMELINES + STRIDE + (number - 1) * 3
    local letter = read_letter(place, timeline.name)
    if letter then
      delete_letter(timeline, letter, place)
      gone, records = gone + 1, records + letter.records
    end
  end
  return gone, records
end

for _, entry in ipairs(request.entries) do
  delete_entry(entry[1], entry[2])
end
forget_removals(timeline.name, request.ring)
local letters, dead = delete_letters()
if not timeline.stored and letters == 0 then
  return answer('0')
end
count_pending(timeline)
local pending, open = timeline.pending, slot.digest and slot.digest.records or 0
if slot.digest then
  delete_digest(timeline)
end
timeline.slot = { state = 'idle' }
save_timeline(timeline)
delete_batch(pending_of(timeline))
count('pending', -pending)
count('open', -open)
count('dead', -dead)
count('deleted', pending + open + dead)
return answer('1')
