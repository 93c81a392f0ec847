-- include: calls.lua
-- The first statements of every script that writes, put in by the loader: a repeated call gets the answer of the first
-- one, and nothing is done. `moving` is the mark of a move, or false.
local moving
do
  local noted, layout
  noted, layout, moving = unpack(call('HMGET', LEDGER, CALL, 'layout', 'moving'))
  -- include: layout.lua
  local earlier_answer = answered(noted)
  if earlier_answer then
    return earlier_answer
  end
end
