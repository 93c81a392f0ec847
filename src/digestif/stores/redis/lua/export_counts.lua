#!lua flags=allow-oom
-- Export the counts of ended records from the ledger, or import those of another store: once for each name.
-- KEYS   12 notes (hash)
-- ARGV   4 {name, fates, counts, fence}: the note of this name says that it was done; the counters to export, or the
--        counts to import; the name and the holder of the note that has to be there, or false
-- Reply  the counts
-- include: calls.lua

local request = cmsgpack.unpack(ARGV[4])
if request.fence and call('HGET', KEYS[12], request.fence[1]) ~= request.fence[2] then
  return redis.error_reply('DIGESTIF_FENCED')
end
local noted = call('HGET', KEYS[12], request.name)
if noted then
  return answer(noted)
end
local counts = request.counts
if not counts then
  counts = {}
  for _, fate in ipairs(request.fates) do
    counts[fate] = tonumber(call('HGET', LEDGER, fate) or 0)
  end
end
for fate, number in pairs(counts) do
  count(fate, request.counts and number or -number)
  if fate ~= 'declined' then
    count(request.counts and 'accepted' or 'left', number)
  end
end
local reply = cmsgpack.pack(counts)
call('HSET', KEYS[12], request.name, reply)
return answer(reply)
