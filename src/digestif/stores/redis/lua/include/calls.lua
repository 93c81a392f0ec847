-- include: partition.lua
-- A caller numbers its calls, and its last answers are kept for a while: a call that is repeated because its reply got
-- lost answers as it did first, and one that comes after a later call of the same caller is refused. The answers are
-- kept beside the counters of the ledger, so that one command reads both and one writes both.
local KEPT = 600000 -- milliseconds of the server's clock, longer than any client repeats a call

local tally = {} -- changes to the counters
local woken = false -- a timeline may be taken at once

-- Add to a number of the ledger. A damaged one starts again; a recount finds that, and a repair corrects it.
local function add_to(field, by)
  local sum = try('HINCRBY', LEDGER, field, by)
  if type(sum) == 'table' then
    sum = field == 'number' and clock or by -- moves have to be numbered above all earlier ones
    call('HSET', LEDGER, field, sum)
  end
  return sum
end

local function count(counter, by)
  tally[counter] = (tally[counter] or 0) + by
end

-- Draw the next number of a series of the ledger. The first draw of a call notes its number, `finish` all others.
local drawn = {} -- by series: the last number, and how many are not noted yet
local function next_of(series)
  local numbers = drawn[series]
  if numbers then
    numbers.last, numbers.more = numbers.last + 1, numbers.more + 1
  else
    numbers = { last = add_to(series, 1), more = 0 }
    drawn[series] = numbers
  end
  return numbers.last
end

-- Delete answers that are too old to be asked for: a page from some place whenever a new caller comes. (Scripts draw
-- the same random numbers every time, so the clock chooses the place.)
local function forget_callers()
  local flat = call('HSCAN', LEDGER, clock % 1024, 'MATCH', 'c:*', 'COUNT', 100)[2]
  for place = 1, #flat, 2 do
    local is_read, _, noted = pcall(struct.unpack, '>dd', flat[place + 1])
    if not is_read or noted + KEPT < clock then
      call('HDEL', LEDGER, flat[place])
    end
  end
end

-- The answer to a call that was made before, or an error; nil if it is new. `follows`: the call before it must have been
-- made. A caller sends such calls without waiting for replies, so its note has several of them, newest first.
local function answered(noted, follows)
  if not noted or string.len(noted) < REPLIES then
    forget_callers()
  else
    local behind = struct.unpack('>d', noted) - tonumber(ARGV[1])
    local place = REPLIES
    for _ = 1, math.min(behind, KEPT_REPLIES) do
      place = place < string.len(noted) and place + 4 + struct.unpack('>I4', noted, place) or place
    end
    if behind >= 0 then
      return place < string.len(noted) and struct.unpack('>I4c0', noted, place)
        or redis.error_reply('DIGESTIF_OVERTAKEN a later call of the same caller was here before')
    end
  end
  return follows and redis.error_reply('DIGESTIF_GAP the call before it was not made') or nil
end

-- Wake listeners, and add to the counters what was counted.
local function finish()
  if woken then
    try('SPUBLISH', WAKE, '') -- a hint: a user who may not publish must not stop a call half-way
  end
  for series, numbers in pairs(drawn) do
    if numbers.more > 0 then
      add_to(series, numbers.more)
    end
  end
  local moved = 0
  for counter, by in pairs(tally) do
    if by ~= 0 then
      add_to(counter, by)
      moved = moved + math.abs(by)
    end
  end
  if moved > 0 then
    add_to('moved', moved) -- only grows: a recount compares it before and after, to see whether records moved
  end
end

-- Note the answer and the counters; `...` are names and new values of counters that the script has read itself.
local function answer(reply, ...)
  finish()
  call('HSET', LEDGER, CALL, struct.pack('>ddI4', ARGV[1], clock, string.len(reply)) .. reply, ...)
  return reply
end
