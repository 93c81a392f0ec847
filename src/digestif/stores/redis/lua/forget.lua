#!lua flags=allow-oom
-- Remove documents of a collection.
-- KEYS   12 documents (hash)  13 order (zset)  14 index (zset)
-- ARGV   4 {collection, keys, compares}
--        5 the body that is to be removed, if `compares`
-- Reply  how many were there
-- include: documents.lua

local request = cmsgpack.unpack(ARGV[4])
local removed = 0
for _, key in ipairs(request.keys) do
  local stored = key ~= '' and call('HGET', DOCUMENTS, key)
  local is_meant = stored and (not request.compares or body_of(stored) == ARGV[5])
  if is_meant then
    remove_document(key, stored, request.collection)
    removed = removed + 1
  end
end
if removed > 0 then
  save_totals()
end
return answer(tostring(removed))
