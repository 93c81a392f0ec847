#!lua flags=no-writes
-- Read pages of open digests.
-- KEYS   12… the timelines
-- ARGV   4 {limit, room, requests}: records and bytes to read, over all; per timeline {token, capacity, after,
--        max_bytes}
-- Reply  per timeline: nil if the token is stale or its keys are damaged, else {revision, dropped, 1 if complete, 1 if
--        it is to be prepared or counted first, page}, the page being key and record in turn
-- include: timelines.lua
-- include: pages.lua

local layout = call('HGET', LEDGER, 'layout')
-- include: layout.lua
local request = cmsgpack.unpack(ARGV[4])
local allowed = request.limit -- records
local room = math.min(request.room, HEAVY) -- bytes

local function take(timeline, token, capacity, after, max_bytes)
  local slot = timeline.slot
  local digest = slot.digest
  if not digest or not is_held(slot, token, now) then
    return false
  end
  local must_be_trimmed = excess(digest, capacity) > 0 or must_be_weighed(digest, max_bytes)
  if digest.deciding or digest.settled == false or must_be_trimmed then
    return { digest.revision, digest.dropped, 0, 1 }
  end
  local batch = digest_of(timeline)
  local held = call('HLEN', batch.records)
  local found = batch.large and call('ZCARD', batch.ages) or held
  local is_whole = found >= held and found == digest.records
  if not is_whole then
    return { digest.revision, digest.dropped, 0, 1 }
  end
  if allowed == 0 then
    return { digest.revision, digest.dropped, 0, 0 }
  end
  local flat, complete, bytes = page(batch, after, allowed, room)
  allowed = allowed - #flat / 2
  room = room - bytes
  allowed = room > 0 and allowed or 0
  return { digest.revision, digest.dropped, complete and 1 or 0, 0, flat }
end

local taken = {}
for number, wanted in ipairs(request.requests) do
  local token, capacity, after, max_bytes = unpack(wanted, 1, 4)
  local is_read, reply =
    pcall(take, timeline_number(number), token, capacity or nil, after or nil, max_bytes or nil)
  taken[number] = is_read and reply -- an error is about a key of the wrong type: nothing can be read there
end
return taken
