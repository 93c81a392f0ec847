#!lua flags=allow-oom
-- Open timelines that may be claimed; those without any record become idle, and damaged ones leave the schedule.
-- KEYS   12… the timelines
-- ARGV   4 {count, token, lease, asks, room}: the lease in milliseconds; whether all timelines are answered as
--        candidates; how many bytes are read along, HEAVY if it does not say
-- Reply  a list, or if the call is repeated only its first item: {retired, leases, damaged, now, candidates, losses}:
--        how many became idle; leases as `open` answers them; numbers of damaged timelines; candidates as
--        {name, slot, pending}; losses as {name, records}.
--        Then per lease what `take` would answer, or nil. Nothing is opened while the store is being moved
-- include: claims.lua

local function is_claimable(slot)
  return not slot.paused and (slot.state == 'ready' or (slot.state == 'waiting' and slot.at <= now))
end

local request = cmsgpack.unpack(ARGV[4])
room = request.room or room
for number = 1, moving and 0 or request.count do
  local timeline = candidate(number, is_claimable, READY, WAITING)
  if timeline then
    claim(timeline, request)
  end
end
return { answer(cmsgpack.pack({ retired, leases, damaged, now, candidates, losses })), unpack(pages) }
