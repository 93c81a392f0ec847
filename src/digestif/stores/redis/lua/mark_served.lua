#!lua flags=allow-oom
-- Note the recipients who have got an open digest.
-- KEYS   12 the timeline's hash
-- ARGV   4 {token, recipients}
-- Reply  '1', or '0' if the token is stale
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])
local timeline = load_timeline(TIMELINES)
local digest = timeline.slot.digest
if not digest or not is_held(timeline.slot, request.token, now) then
  return answer('0')
end
local known = {}
digest.served = digest.served or {}
for _, recipient in ipairs(digest.served) do
  known[recipient] = true
end
for _, recipient in ipairs(request.recipients) do
  if not known[recipient] then
    known[recipient] = true
    table.insert(digest.served, recipient)
  end
end
save_timeline(timeline)
return answer('1')
