-- include: call.lua
-- The time of this call, in milliseconds: given, or the server's own. (Statements, not functions: each function that a
-- script defines costs the server about a microsecond at every call.)
local now = tonumber(ARGV[3])
if not now then
  local seconds, micros = unpack(call('TIME'))
  now = seconds * 1000 + math.floor(micros / 1000)
end
