#!lua flags=allow-oom
-- Remove records from an open digest.
-- KEYS   12… the timeline
-- ARGV   4 {token, keys, raised}: whether an earlier call of the same request has raised the revision
-- Reply  {revision, whether it is raised}; false if the token is stale
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = timeline_number(1)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer(cmsgpack.pack(false))
end
local HISTORY_KEYS = 100 -- keys of records that an entry of the history has
local batch, gone, left_out = digest_of(timeline), 0, digest.left_out or {}
for _, key in ipairs(request.keys) do
  if pull(batch, key) then
    gone = gone + 1
    left_out[#left_out + 1] = #left_out < HISTORY_KEYS and key or nil
  end
end
digest.left_out = #left_out > 0 and left_out or nil
count('open', -gone)
count('deleted', gone)
after_losing(digest, gone, request.raised)
save_timeline(timeline)
return answer(cmsgpack.pack({ digest.revision, request.raised or (gone > 0 and not digest.fresh) or false }))
