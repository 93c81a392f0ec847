#!lua flags=allow-oom
-- Turn records of an open digest into dead letters of their own.
-- KEYS   12… the timeline, then per record its letter: records, ages, times
-- ARGV   4 {token, records, raised}: each {key, letter id, reason}; whether an earlier call, with which this one goes
--        on, has raised the revision
-- Reply  two flags: '0' if the token is stale, else '1'; whether the revision is raised
-- include: ending.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer('00')
end
if request.raised then
  digest.revision = digest.revision - 1 -- what all of the letters tell, before it is raised once
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
local seen = digest.attempt > 1 or digest.frozen -- an earlier attempt may have carried them
local raised = request.raised or (gone > 0 and seen)
if raised then
  digest.revision = digest.revision + 1
end
save_timeline(timeline)
return answer(raised and '11' or '10')
