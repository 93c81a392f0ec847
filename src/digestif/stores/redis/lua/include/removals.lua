-- include: calls.lua
-- Records that were retracted or expired: what is remembered of a timeline is in the hash of the history, in the field
-- 't' and its name. Rings of names, in the fields 'r' and a place, bound how many timelines are remembered: there is one
-- for each tenant, whose name follows the place, and one for all others. Requests say their size, and of which timelines
-- there is a tenant.
local RETRACTED_KEYS = 20 -- of a timeline, the latest

local function sound_removals(stored)
  local found = cmsgpack.unpack(stored)
  local is_sound = #found.retracted <= RETRACTED_KEYS and found.expired >= 0 and found.number >= 0
  return is_sound and type(found.tenant or '') == 'string' and found
end

local function removals_of(name)
  local is_read, found = pcall(sound_removals, call('HGET', HISTORY, 't' .. name))
  return is_read and found or { retracted = {}, expired = 0 }
end

local function place_of(number, ring, tenant)
  return 'r' .. number % ring .. (tenant and ':' .. tenant or '')
end

-- Give a timeline the next place of a ring; the timeline that had it is forgotten.
local function place_in_ring(name, ring, tenant)
  local number = next_of(tenant and 'removals:' .. tenant or 'removals')
  local place = place_of(number, ring, tenant)
  local forgotten = call('HGET', HISTORY, place)
  if forgotten then
    call('HDEL', HISTORY, 't' .. forgotten)
  end
  call('HSET', HISTORY, place, name)
  return number
end

local function save_removals(name, found, request)
  local tenant = request.tenants and request.tenants[name]
  if found.number and found.tenant ~= tenant then -- tenants were named since
    call('HDEL', HISTORY, place_of(found.number, request.ring, found.tenant))
    found.number = nil
  end
  found.tenant, found.number = tenant, found.number or place_in_ring(name, request.ring, tenant)
  call('HSET', HISTORY, 't' .. name, cmsgpack.pack(found))
end

local function note_retracted(name, key, request)
  local found = removals_of(name)
  table.insert(found.retracted, { key, now })
  if #found.retracted > RETRACTED_KEYS then
    table.remove(found.retracted, 1)
  end
  save_removals(name, found, request)
end

local function note_expired(name, many, request)
  local found = removals_of(name)
  found.expired = found.expired + many
  found.first_expired, found.last_expired = found.first_expired or now, now
  save_removals(name, found, request)
end

local function forget_removals(name, ring)
  local found = removals_of(name)
  if found.number then
    call('HDEL', HISTORY, 't' .. name, place_of(found.number, ring, found.tenant))
  end
end
