-- include: basics.lua
-- include: names.lua

-- The time of this call, in milliseconds. (Statements, not a function: each function that a script defines costs the
-- server about a microsecond at every call.)
local seconds, micros = unpack(call('TIME'))
local clock = seconds * 1000 + math.floor(micros / 1000)
local now = tonumber(ARGV[3]) or clock
