-- Refuse a call that would start a delivery while the store is being moved into another. The guard has read `moving`.
local refusal = moving and redis.error_reply('DIGESTIF_MOVING')
if refusal then
  return refusal
end
