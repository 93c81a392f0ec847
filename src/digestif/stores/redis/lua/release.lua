#!lua flags=allow-oom
-- Give digests back after a failed attempt.
-- KEYS   12… per timeline: its hash
-- ARGV   4 per timeline {token, freeze, uncounted, until or nil}
-- Reply  '1' per digest, or '0' if the token is stale
-- include: timelines.lua

local released = {}
for number, release in ipairs(cmsgpack.unpack(ARGV[4])) do
  local token, freeze, uncounted, later = unpack(release, 1, 4)
  local timeline = load_timeline(TIMELINES + number - 1)
  local held = is_held(timeline.slot, token, now)
  if held then
    if later then
      after_release(timeline.slot, later, freeze, uncounted)
    else
      after_failure(timeline.slot, freeze, uncounted)
    end
    save_timeline(timeline)
  end
  released[number] = held and '1' or '0'
end
return answer(table.concat(released))
