#!lua flags=allow-oom
-- Let leases end later.
-- KEYS   12… per timeline: its hash
-- ARGV   4 {lease, tokens, alone}: whether nothing else runs beside their groups of suspects
-- Reply  '1' per lease, or '0' if its token is stale
-- include: timelines.lua

local request = cmsgpack.unpack(ARGV[4])
local extended = {}
for number, token in ipairs(request.tokens) do
  local timeline = load_timeline(TIMELINES + number - 1)
  local held = is_held(timeline.slot, token, now)
  if held then
    timeline.slot['until'] = now + request.lease
    if not request.alone then
      timeline.slot.group, timeline.slot.alone = nil, nil
    end
    save_timeline(timeline)
  end
  extended[number] = held and '1' or '0'
end
return answer(table.concat(extended))
