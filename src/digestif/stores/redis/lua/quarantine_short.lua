#!lua flags=allow-oom
-- Turn records that are too short to be one into dead letters of their own. Of a digest that is held, nothing.
-- KEYS   12… the timeline, then per record its letter: records, ages, times
-- ARGV   4 {batch, records}: 0 for what is pending, 1 for the digest; per record {key, letter id, reason}
-- Reply  '1'
-- include: ending.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
local slot = timeline.slot
local digest = slot.digest
if timeline.state == 'damaged' or (request.batch == 1 and (not digest or is_live(slot, now))) then
  return answer('1')
end
local batch = request.batch == 0 and pending_of(timeline) or digest_of(timeline)
local gone = 0
for number, aside in ipairs(request.records) do
  local key, id, reason = unpack(aside)
  local record = call('HGET', batch.records, key)
  if record and string.len(record) < WHOLE then
    pull(batch, key)
    local place = TIMELINES + STRIDE + (number - 1) * 3
    call('HSET', KEYS[place], key, record)
    local of = { revision = 1, attempt = 0, lapses = 0, opened = now }
    write_letter(timeline, place, letter_of(of, id, 1, 0, reason))
    gone = gone + 1
  end
end
count('dead', gone)
if request.batch == 0 then
  count('pending', -gone)
  fewer_pending(timeline, gone)
else
  count('open', -gone)
  digest.records = digest.records - gone
  digest.revision = digest.revision + (gone > 0 and 1 or 0)
  if digest.records == 0 and slot.state ~= 'open' then
    slot.digest = nil
  end
end
save_timeline(timeline)
return answer('1')
