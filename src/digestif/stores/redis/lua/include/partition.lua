-- What every call declares first: the keys of its partition, then the time and the request.
-- KEYS   1 call (string)  2 ledger (hash)  3 names (zset)  4 waiting  5 ready  6 since  7 leases  8 paused  9 expiring (zsets)
--        10 history (hash)  11 letters (zset)  12 wake (channel)  13… the keys of timelines and dead letters
-- ARGV   1 sequence of the caller  2 now, in milliseconds; empty: the server's own clock  3 the request, in MessagePack
local CALL, LEDGER, NAMES, WAITING, READY, SINCE, LEASES, PAUSED, EXPIRING, HISTORY, LETTERS, WAKE = unpack(KEYS, 1, 12)
local TIMELINES = 13 -- where the keys of timelines begin

local call = redis.call

local function time()
  if ARGV[2] ~= '' then
    return tonumber(ARGV[2])
  end
  local seconds, micros = unpack(call('TIME'))
  return seconds * 1000 + math.floor(micros / 1000)
end

local now = time()
