#!lua flags=allow-oom
-- Let timelines wait again that are ready for too long or whose lease lapsed, and expire records.
-- KEYS   12… the timelines: the stale ones, the lapsed ones, the expiring ones
-- ARGV   4 {deadline, stale, lapsed, expiring, limit, ring, tenants}: how many of each; how many records may expire; as
--        for add_to_history. Without a deadline, lapsed ones are left alone unless they are paused
-- Reply  {moved, lapsed, expired, whether more may have expired, the numbers of timelines that are damaged}: the name
--        and due time of each that waits again, names, the name and how many records
-- include: endings.lua
-- include: removals.lua

local request = cmsgpack.unpack(ARGV[4])
local moved, lapsed, expired = {}, {}, {}
local allowed = request.limit -- records that may expire

local function maintain(timeline)
  local slot = timeline.slot
  if slot.state == 'ready' and slot.since <= request.deadline then
    after_maintenance(slot)
    save_timeline(timeline)
    table.insert(moved, { timeline.name, slot.at })
  elseif slot.state ~= 'ready' then
    put_in_place(timeline)
  end
end

local function expire_pending(timeline, limit)
  local slot = timeline.slot
  if not slot.expires or slot.expires > now then
    return 0
  end
  local batch = pending_of(timeline)
  local gone, missing = expire(batch, now, limit)
  count('pending', -gone)
  subtract_pending(timeline, gone - missing)
  slot.expires = timeline.pending > 0 and earliest_expiry(batch) or nil
  return gone
end

-- A frozen digest expires as a whole, once its last record has.
local function expire_frozen(timeline, batches)
  local digest = timeline.slot.digest
  local last = -NEVER
  for _, batch in ipairs(batches) do
    last = math.max(last, latest_expiry(batch) or NEVER)
  end
  if last > now then
    digest.expires = last < NEVER and last or nil
    return 0
  end
  local keys = newest_keys(batches[1], HISTORY_KEYS)
  delete_digest(timeline)
  add_to_history(timeline.name, digest, 'expired', request, keys)
  local gone = digest.records
  digest.records, digest.merging = 0, nil
  return gone
end

local function expire_one_by_one(timeline, batches, limit)
  local digest = timeline.slot.digest
  local gone, next_expiry = 0, nil
  for _, batch in ipairs(batches) do
    gone = gone + (expire(batch, now, limit - gone))
  end
  for _, batch in ipairs(batches) do
    next_expiry = earlier(next_expiry, earliest_expiry(batch))
  end
  after_losing(digest, gone)
  digest.expires = next_expiry
  return gone
end

local function expire_digest(timeline, limit)
  local slot = timeline.slot
  local digest = slot.digest
  if not digest or slot.state == 'open' or digest.replayed or limit == 0 then
    return 0
  end
  if not digest.expires or digest.expires > now then
    return 0
  end
  local batches = { digest_of(timeline) }
  if digest.merging then
    table.insert(batches, merging_of(timeline))
  end
  local gone = digest.frozen and expire_frozen(timeline, batches) or expire_one_by_one(timeline, batches, limit)
  count('open', -gone)
  return gone
end

local function expire_timeline(timeline)
  if timeline.state == 'idle' then
    put_in_place(timeline)
    return
  end
  local gone = expire_pending(timeline, allowed)
  gone = gone + expire_digest(timeline, allowed - gone)
  if gone > 0 then
    count('expired', gone)
    note_expired(timeline.name, gone, request)
    table.insert(expired, { timeline.name, gone })
    allowed = allowed - gone
  end
  timeline.slot = after_expiry(timeline.slot, now, timeline.pending)
  save_timeline(timeline)
end

-- Records of a digest that lapses may have expired meanwhile.
local function lapse(timeline)
  local slot = timeline.slot
  if not is_suspect(slot, now) or not (request.deadline or slot.paused) then
    put_in_place(timeline)
    return
  end
  after_lapse(slot)
  table.insert(lapsed, timeline.name)
  local expires = marks(slot).expiring
  if expires and expires <= now and allowed > 0 then
    expire_timeline(timeline)
  else
    save_timeline(timeline)
  end
end

local number = 0
local damaged = {}
local function with_next(many, act)
  for _ = 1, many do
    number = number + 1
    local timeline = with_sound_batches(timeline_number(number))
    if timeline.state == 'damaged' then
      put_in_place(timeline)
      table.insert(damaged, number)
    else
      act(timeline)
    end
  end
end

with_next(request.stale, maintain)
with_next(request.lapsed, lapse)
local left = false -- to the next call
with_next(request.expiring, function(timeline)
  if allowed > 0 and weight < HEAVY and effort > 0 then
    expire_timeline(timeline)
  else
    left = true
  end
end)
local more = left or allowed <= 0 or weight >= HEAVY
return answer(cmsgpack.pack({ moved, lapsed, expired, more, damaged }))
