#!lua flags=allow-oom
-- End digests as delivered.
-- KEYS   12… the timelines
-- ARGV   4 {ring, tenants, completions}: as for add_to_history; per timeline {token, plan, receipt, keys}: those of
--        its newest records, nil if they are to be looked for
-- Reply  '1' per digest, or '0' if the token is stale
-- include: endings.lua

local NOTHING_LEFT = 'no record was left to send'
local request = cmsgpack.unpack(ARGV[4])

local function complete(timeline, token, plan, receipt, keys)
  local slot = timeline.slot
  local digest = slot.digest
  if not digest or not is_held(slot, token, now) then
    return '0'
  end
  if digest.records > 0 then
    keys = keys or newest_keys(digest_of(timeline), HISTORY_KEYS)
    add_to_history(timeline.name, digest, 'delivered', request, keys, nil, receipt)
    delete_digest(timeline)
    count('digests', 1)
  elseif digest.left_out then
    add_to_history(timeline.name, digest, 'discarded', request, {}, NOTHING_LEFT)
  end
  count('open', -digest.records)
  count('delivered', digest.records)
  timeline.slot = after_completion(slot, now, plan, timeline.pending)
  save_timeline(timeline)
  return '1'
end

local completed = {}
for number, completion in ipairs(request.completions) do
  local token, plan, receipt, keys = unpack(completion, 1, 4)
  completed[number] = complete(timeline_number(number), token, plan, receipt or nil, keys or nil)
end
return answer(table.concat(completed))
