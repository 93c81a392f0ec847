#!lua flags=allow-oom
-- Turn records of an open digest into dead letters of their own.
-- KEYS   12… the timeline, then per record its letter: records, ages, times
-- ARGV   4 {token, records, raised}: each {key, letter id, reason}; whether an earlier call of the same request has
--        raised the revision
-- Reply  two flags: '0' if the token is stale, else '1'; whether the revision is raised
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer('00')
end
local revision = digest.revision - (request.raised and 1 or 0) -- of the digest that carried the records
local batch, gone = digest_of(timeline), 0
for number, quarantined in ipairs(request.records) do
  local key, id, reason = unpack(quarantined)
  local record = pull(batch, key)
  local is_without_value = not record and remove_from_orders(batch, key, '') -- only the order had it
  if is_without_value then
    record = ''
  end
  if record then
    local letter = letter_of(digest, id, 1, 0, reason)
    letter.revision = revision
    bury_record(timeline, TIMELINES + STRIDE + (number - 1) * 3, key, record, letter)
    gone = gone + 1
  end
end
count('open', -gone)
count('dead', gone)
after_losing(digest, gone, request.raised)
save_timeline(timeline)
return answer((request.raised or (gone > 0 and not digest.fresh)) and '11' or '10')
