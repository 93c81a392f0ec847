-- Run a command of the server.
local call = redis.call
