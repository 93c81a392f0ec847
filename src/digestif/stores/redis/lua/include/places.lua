-- include: pages.lua
-- Going on in an order of timelines by time.

-- Byte by byte, as the server orders equal times: Lua itself compares by the rules of the server's language.
local function is_after(one, other)
  for place = 1, math.min(string.len(one), string.len(other)) do
    local byte, another = string.byte(one, place), string.byte(other, place)
    if byte ~= another then
      return byte > another
    end
  end
  return string.len(one) > string.len(other)
end

-- How many timelines come before, or at, a place: {time, name}.
local function rank_after_place(order, place)
  local at, name = string.format('%.17g', place[1]), place[2]
  return cut_ties(call('ZCOUNT', order, '-inf', '(' .. at), call('ZCOUNT', order, at, at), function(rank)
    return call('ZRANGE', order, rank, rank)[1]
  end, function(member)
    return not is_after(member, name)
  end)
end
