-- include: partition.lua
-- A caller numbers its calls, and its last answer is kept for a while: a call that is repeated because its reply got lost
-- answers as it did first, and one that comes after a later call of the same caller is refused.
local KEPT = 600 -- seconds, longer than anybody repeats a call

local tally = {} -- changes to the ledger
local woken = false -- a timeline may be taken at once

local function count(fate, by)
  tally[fate] = (tally[fate] or 0) + by
end

local function next_number()
  return call('HINCRBY', LEDGER, 'number', 1)
end

local function earlier_answer()
  local noted = call('GET', CALL)
  if not noted then
    return nil
  end
  local cut = string.find(noted, ' ', 1, true)
  local behind = tonumber(string.sub(noted, 1, cut - 1)) - tonumber(ARGV[1])
  if behind < 0 then
    return nil
  end
  if behind == 0 then
    return string.sub(noted, cut + 1)
  end
  return redis.error_reply('DIGESTIF_OVERTAKEN a later call of the same caller was here before')
end

local function answer(reply)
  for fate, by in pairs(tally) do
    if by ~= 0 then
      call('HINCRBY', LEDGER, fate, by)
    end
  end
  if woken then
    call('SPUBLISH', WAKE, '')
  end
  call('SET', CALL, ARGV[1] .. ' ' .. reply, 'EX', KEPT)
  return reply
end
