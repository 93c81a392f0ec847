#!lua flags=allow-oom
-- End digests as dead letters.
-- KEYS   12… per digest: the timeline, then the letter: records, ages, times
-- ARGV   4 {ring, tenants, burials}: as for add_to_history; per digest {token, id, reason, plan, traceback, unknown}
-- Reply  '1' per digest, or '0' if the token is stale; an error with nothing done if one is being merged
-- include: endings.lua

local request = cmsgpack.unpack(ARGV[4])

local function held_digest(timeline, burial)
  local digest = timeline.slot.digest
  return digest and digest.id == burial.id and is_held(timeline.slot, burial.token, now) and digest
end

local function bury(timeline, burial)
  local digest = held_digest(timeline, burial)
  if not digest then
    return '0'
  end
  if digest.records > 0 then
    local batch, place = digest_of(timeline), timeline.place + STRIDE
    digest.unknown = digest.unknown or burial.unknown or nil
    local letter = letter_of(digest, digest.id, digest.records, digest.dropped, burial.reason)
    local served = who_got(digest)
    letter.served = #served > 0 and served or nil
    letter.traceback = burial.traceback ~= '' and burial.traceback or nil
    add_to_history(timeline.name, digest, 'dead', request, newest_keys(batch, HISTORY_KEYS), burial.reason)
    rename(batch, place, true)
    write_letter(timeline, place, letter)
  end
  count('open', -digest.records)
  count('dead', digest.records)
  timeline.slot = after_completion(timeline.slot, now, burial.plan, timeline.pending)
  save_timeline(timeline)
  return '1'
end

for number, burial in ipairs(request.burials) do
  local digest = held_digest(timeline_number(number, WITH_LETTER), burial)
  if digest and digest.merging then
    return redis.error_reply('DIGESTIF_MERGING ' .. number)
  end
end
local buried = {}
for number, burial in ipairs(request.burials) do
  buried[number] = bury(timeline_number(number, WITH_LETTER), burial)
end
return answer(table.concat(buried))
