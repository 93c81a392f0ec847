-- The earlier of two times; nil is never.
local function earlier(one, other)
  if not one or (other and other < one) then
    return other
  end
  return one
end
