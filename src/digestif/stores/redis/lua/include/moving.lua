-- Refuse a call that would start a delivery while the store is being moved into another. The guard has read `moving`.
if moving then
  return redis.error_reply('DIGESTIF_MOVING')
end
