#!lua flags=allow-oom
-- Mark that the store is being moved into another, or that it is no longer. Calls that start deliveries read the mark.
-- KEYS   those of the partition
-- ARGV   4 {id, begins}: of the move; false: of any move, to end it
-- Reply  '1', or '0' with nothing done if the mark is there already, or is of another move
-- include: calls.lua

local request = cmsgpack.unpack(ARGV[4])
local is_marked = moving and (not request.id or string.match(moving, ' (.*)$') == request.id)
if request.begins and not is_marked then
  call('HSET', LEDGER, 'moving', string.format('%.0f %s', now, request.id))
  return answer('1')
elseif not request.begins and is_marked then
  call('HDEL', LEDGER, 'moving')
  woken = true
  return answer('1')
end
return answer('0')
