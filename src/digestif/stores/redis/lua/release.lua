#!lua flags=allow-oom
-- Give digests back after a failed attempt.
-- KEYS   12… per timeline: its hash
-- ARGV   4 per timeline {token, freeze, uncounted, until or nil}
-- Reply  '1' per digest, or '0' if the token is stale
-- include: slots.lua
-- include: leasing.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

local released = {}
for number, release in ipairs(cmsgpack.unpack(ARGV[4])) do
  local timeline = load_timeline(TIMELINES + number - 1)
  local held = is_held(timeline.slot, release[1], now)
  if held then
    after_failure(timeline.slot, release[4] or nil, release[2], release[3])
    save_timeline(timeline)
  end
  released[number] = held and '1' or '0'
end
return answer(table.concat(released))
