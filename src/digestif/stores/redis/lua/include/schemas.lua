-- A schema, or a layout that begins with one, raised from 1 to 2, whose scripts read the records of both. From then on
-- the scripts of an older release, which do not, are refused.
local function raised(text)
  return text and (string.gsub(text, '^1%f[%D]', '2'))
end
