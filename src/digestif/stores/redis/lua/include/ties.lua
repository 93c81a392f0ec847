-- The first rank, of `ties` equal scores from rank `base` on, whose member does not come before the cut.
local function cut_ties(base, ties, member_at, is_before)
  local low, high = base, base + ties
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(member_at(middle)) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end
