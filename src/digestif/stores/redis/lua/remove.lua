#!lua flags=allow-oom
-- Take records out of an open digest, which nobody wants any more.
-- KEYS   12… the timeline
-- ARGV   4 {token, keys, raised}: whether an earlier call, with which this one goes on, has raised the revision
-- Reply  {revision, whether it is raised}; false if the token is stale
-- include: timelines.lua
-- include: leasing.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer(cmsgpack.pack(false))
end
local batch, gone = digest_of(timeline), 0
for _, key in ipairs(request.keys) do
  if pull(batch, key) then
    gone = gone + 1
  end
end
count('open', -gone)
count('deleted', gone)
digest.records = digest.records - gone
local seen = digest.attempt > 1 or digest.frozen -- an earlier attempt may have carried them
local raises = gone > 0 and seen and not request.raised
if raises then
  digest.revision = digest.revision + 1
end
save_timeline(timeline)
return answer(cmsgpack.pack({ digest.revision, request.raised or raises or false }))
