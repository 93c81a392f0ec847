#!lua flags=allow-oom
-- Give digests back after a failed attempt.
-- KEYS   12… per timeline: its hash
-- ARGV   4 per timeline {lease, until, freeze, counted, unknown, tried, read}: the lease's token; what is not there is
--        nil
-- Reply  '1' per digest, or '0' if the token is stale
-- include: timelines.lua

local released = {}
for number, release in ipairs(cmsgpack.unpack(ARGV[4])) do
  local timeline = load_timeline(TIMELINES + number - 1)
  local held = is_held(timeline.slot, release.lease, now)
  if held then
    if release['until'] then
      after_release(timeline.slot, release)
    else
      after_failure(timeline.slot, release)
    end
    save_timeline(timeline)
  end
  released[number] = held and '1' or '0'
end
return answer(table.concat(released))
