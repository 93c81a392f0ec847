-- What every call declares first: the keys of its partition, then the caller, the time and the request.
-- KEYS   1 ledger (hash)  2 names (zset)  3 waiting  4 ready  5 since  6 leases  7 paused  8 expiring (zsets)
--        9 history (hash)  10 letters (zset)  11 wake (channel)  12… the keys of timelines and dead letters
-- ARGV   1 number of the call  2 caller  3 now, in milliseconds; empty: the server's own clock
--        4 the request, in MessagePack  last: the layout that the caller knows, and perhaps a mark; see layout.lua
local LEDGER, NAMES, WAITING, READY, SINCE, LEASES, PAUSED, EXPIRING, HISTORY, LETTERS, WAKE = unpack(KEYS, 1, 11)
local TIMELINES = 12 -- where the keys of timelines begin
local CALL = ARGV[2]
local REPLIES = 17 -- where they begin in the note of a caller, behind its last number and the time
local KEPT_REPLIES = 8 -- as many as a client may send without waiting for a reply
