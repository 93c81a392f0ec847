-- A layout whose first number, the oldest version that may still write, is at least this one.
local function raised(layout, oldest)
  local noted = layout and tonumber(string.match(layout, '^%d+'))
  return noted and noted < tonumber(oldest) and string.gsub(layout, '^%d+', oldest, 1) or layout
end
