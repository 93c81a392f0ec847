-- Run a command of the server; `try` answers an error, which is a table, instead of raising it. (Globals are slow.)
local call, try, type, pcall = redis.call, redis.pcall, type, pcall
