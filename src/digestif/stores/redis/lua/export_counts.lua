#!lua flags=allow-oom
-- Take the counts of ended records out of the ledger and note them; or count those of another store, once.
-- KEYS   12 notes (hash)
-- ARGV   4 {name, counts, fence}: under what name to note it; without counts they are taken out; the name and the
--        holder of the note that has to be there, or false
-- Reply  the counts
-- include: calls.lua

local earlier_reply = earlier_answer()
if earlier_reply then
  return earlier_reply
end

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
  count(request.counts and 'accepted' or 'left', number)
end
local reply = cmsgpack.pack(counts)
call('HSET', KEYS[12], request.name, reply)
return answer(reply)
