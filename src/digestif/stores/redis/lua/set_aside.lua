#!lua flags=allow-oom
-- Turn records of an open digest into dead letters of their own.
-- KEYS   12… the timeline, then per record its letter: records, ages, times
-- ARGV   4 {token, records, again}: each {key, letter id, reason}; whether this goes on with what an earlier call began
-- Reply  '1', or '0' if the token is stale
-- include: ending.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer('0')
end
local batch, gone = digest_of(timeline), 0
for number, aside in ipairs(request.records) do
  local key, id, reason = unpack(aside)
  local record = pull(batch, key)
  if record then
    local place = TIMELINES + STRIDE + (number - 1) * 3
    call('HSET', KEYS[place], key, record)
    write_letter(timeline, place, letter_of(digest, id, 1, 0, reason))
    gone = gone + 1
  end
end
count('open', -gone)
count('dead', gone)
digest.records = digest.records - gone
if gone > 0 and digest.attempt > 1 and not request.again then
  digest.revision = digest.revision + 1 -- an earlier attempt may have carried them
end
save_timeline(timeline)
return answer('1')
