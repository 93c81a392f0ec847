#!lua flags=allow-oom
-- Take names out of a hash or an order of the partition.
-- KEYS   12 the key
-- ARGV   4 {command, names}: HDEL or ZREM
-- Reply  how many there were
local request = cmsgpack.unpack(ARGV[4])
return answer(tostring(call(request.command, KEYS[TIMELINES], unpack(request.names))))
