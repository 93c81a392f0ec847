#!lua flags=allow-oom
-- Turn the records of a damaged timeline into dead letters, one per batch, and delete the rest of it.
-- KEYS   12… the timeline; the order of the dead letters of the timeline that gets them; then per batch its letter:
--        records, ages, times
-- ARGV   4 {stored, name, letters, keeps}: the slot as it was found, or empty; the timeline that gets the letters; per
--        batch {id, reason, lapses}; whether its pause and its policy stay
-- Reply  '1', or '0' with nothing done if the slot is another one by now
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local stored = try('HGET', timeline.key, '')
local found = type(stored) == 'string' and stored or ''
if string.sub(found, 2) ~= string.sub(request.stored, 2) then -- its first byte says only whether records may join it
  return answer('0')
end
local OWNER = KEYS[TIMELINES + STRIDE]

-- Move a batch to the place of its letter; the answer is how many records it has.
local function move_batch(batch, place)
  local size = call('HLEN', batch.records)
  if size == 0 then
    return 0
  end
  call('RENAME', batch.records, KEYS[place])
  for offset, order in ipairs({ batch.ages, batch.times }) do
    if call('TYPE', order).ok == 'zset' then
      call('RENAME', order, KEYS[place + offset])
    end
  end
  if call('ZCARD', KEYS[place + 1]) ~= size then
    call('UNLINK', KEYS[place + 1])
  end
  return size
end

for number, fate in ipairs({ 'pending', 'open', 'open' }) do
  local batch = batch_at(timeline.place + (number - 1) * 3)
  local place = TIMELINES + STRIDE + 1 + (number - 1) * 3
  local kind, size = call('TYPE', batch.records).ok, 0
  if kind == 'hash' then
    call('HDEL', batch.records, '')
    size = move_batch(batch, place)
    count(fate, -size)
  elseif kind ~= 'none' then
    keep_as_record(content_of(batch.records), KEYS[place])
    size = 1
  end
  delete_batch(batch)
  if size > 0 then
    local id, reason, lapses = unpack(request.letters[number])
    write_letter({ name = request.name, dead = OWNER }, place, {
      id = id,
      revision = 1,
      attempts = lapses,
      lapses = lapses,
      reason = reason,
      records = size,
      dropped = 0,
      opened = now,
    })
    count('dead', size)
  end
end
local keeps_choices = request.keeps -- what people chose: its pause and its policy
if keeps_choices then
  timeline.slot, timeline.pending = after_retirement(timeline.slot), 0
  save_timeline(timeline)
else
  timeline.slot, timeline.state = { state = 'damaged' }, 'damaged'
  call('ZREM', NAMES, timeline.name)
end
put_in_place(timeline)
return answer('1')
