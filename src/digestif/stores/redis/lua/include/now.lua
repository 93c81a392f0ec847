-- include: call.lua
-- The time of this call, in milliseconds: given, or the server's own clock. (Statements, not functions: each function
-- that a script defines costs the server about a microsecond at every call.)
local seconds, micros = unpack(call('TIME'))
local clock = seconds * 1000 + math.floor(micros / 1000)
local now = tonumber(ARGV[3]) or clock
