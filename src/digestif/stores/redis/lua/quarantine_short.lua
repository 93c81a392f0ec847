#!lua flags=allow-oom
-- Turn records without a value into dead letters of their own; not in a digest whose lease is alive.
-- KEYS   12… the timeline, then per record its letter: records, ages, times
-- ARGV   4 {batch, records}: 0 for what is pending, 1 for the digest; per record {key, letter id, reason}. It is
--        too short to be one, or only the order by age still has its key
-- Reply  '1'
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = with_sound_batches(timeline_number(1))
local slot = timeline.slot
local digest = slot.digest
if timeline.state == 'damaged' or (request.batch == 1 and (not digest or is_live(slot, now))) then
  return answer('1')
end
local batch = request.batch == 0 and pending_of(timeline) or digest_of(timeline)
local gone, missing = 0, 0
for number, quarantined in ipairs(request.records) do
  local key, id, reason = unpack(quarantined)
  local record = call('HGET', batch.records, key)
  if not record and remove_from_orders(batch, key, '') then
    record, missing = '', missing + 1
  end
  if record and not timestamp_place(record) then
    pull(batch, key)
    local letter = letter_of({ revision = 1, attempt = 0, lapses = 0, opened = now }, id, 1, 0, reason)
    bury_record(timeline, TIMELINES + STRIDE + (number - 1) * 3, key, record, letter)
    gone = gone + 1
  end
end
count('dead', gone)
if request.batch == 0 then
  count('pending', -gone)
  subtract_pending(timeline, gone - missing)
else
  count('open', -gone)
  after_losing(digest, gone)
  if digest.records == 0 and slot.state ~= 'open' then
    slot.digest = nil
  end
end
save_timeline(timeline)
return answer('1')
