"""Faults in the scripts that easily could be made: what to change in which file, and which sentences must find it."""

from tests.nets.planting import ScriptFault as Fault

# Where a timeline is placed: include/placing.lua.
PLACING = [
    Fault(
        says="a stream of records puts a digest off for ever",
        file="include/placing.lua",
        old="  if at <= cap then\n",
        new="  if at <= cap or true then\n",
        found_by=("test_increments_end_at_the_maximum_after_the_last_delivery",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a timeline is full with one record more than max_records",
        file="include/placing.lua",
        old="pending >= max_records",
        new="pending > max_records",
        found_by=("test_enough_records_make_a_timeline_due_at_once",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a record puts off the retry of a failed digest",
        file="include/placing.lua",
        old="elseif slot.state == 'waiting' and not slot.digest then",
        new="elseif slot.state == 'waiting' then",
        found_by=("test_a_retry_is_not_put_off_nor_pulled_forward",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an urgent record is forgotten at the close",
        file="include/placing.lua",
        old="""\
  move(slot, now + cool_down, 'cool_down', now, max_records, pending)
  return slot\
""",
        new="""\
  slot.was, slot.at, slot.rule = slot.at, now + cool_down, 'cool_down'
  return slot\
""",
        found_by=("test_it_is_urgent_after_a_digest_that_was_open_when_it_came",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an empty digest counts as a delivery",
        file="include/placing.lua",
        old="delivered and slot.iteration + 1 or 0",
        new="slot.iteration + 1",
        found_by=("test_an_empty_digest_resets_the_iteration",),
        model=True,
        vectors=True,
    ),
]

# Who may do what, and what becomes of a digest: include/leasing.lua, claim.lua, claimable.lua, open.lua.
LEASING = [
    Fault(
        says="whoever ends an open digest is believed, whatever the token",
        file="include/leasing.lua",
        old="return slot.token == token and is_live(slot, now)",
        new="return is_live(slot, now)",
        found_by=("test_a_stale_token_changes_nothing[close-taken over]",),
        model=True,
    ),
    Fault(
        says="a lease lives a moment longer than it says",
        file="include/leasing.lua",
        old="and now < slot['until']",
        new="and now <= slot['until']",
        found_by=("test_an_open_timeline_is_busy_until_its_lease_lapses",),
        model=True,
    ),
    Fault(
        says="a digest that lapsed is merged with newer records",
        file="include/leasing.lua",
        old="slot.digest = kept(slot.digest, true)",
        new="slot.digest = kept(slot.digest, false)",
        found_by=("test_a_lost_lease_gives_exactly_the_same_digest_again",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="lapses are not counted",
        file="include/leasing.lua",
        old="slot.digest.lapses = slot.digest.lapses + 1",
        new="slot.digest.lapses = slot.digest.lapses",
        found_by=("test_lapsed_leases_are_ended",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a merged digest comes under the key that it had before",
        file="include/leasing.lua",
        old="  digest.revision = digest.revision + 1\n",
        new="",
        found_by=("test_the_revision_rises_with_each_reported_failure",),
        model=True,
    ),
    Fault(
        says="records of a digest that was given back do not expire",
        file="include/leasing.lua",
        old="    expires = slot.expires,\n",
        new="",
        found_by=("test_a_failed_digest_expires_record_by_record",),
        model=True,
    ),
    Fault(
        says="records that were merged into a digest do not expire",
        file="include/leasing.lua",
        old="  digest.expires = earlier(digest.expires, slot.expires)\n",
        new="",
        found_by=("test_what_joined_a_failed_digest_expires_by_its_own_time",),
    ),
    Fault(
        says="a merge keeps one record more than the capacity",
        file="include/leasing.lua",
        old="return digest.records - capacity\n",
        new="return digest.records - capacity - 1\n",
        found_by=("test_a_failed_digest_and_newer_records_share_the_capacity",),
        model=True,
    ),
    Fault(
        says="what capacity dropped before a merge is not in the digest's count",
        file="include/leasing.lua",
        old="  digest.dropped = digest.dropped + (slot.dropped or 0)\n",
        new="",
        found_by=("test_everything_that_was_dropped_on_the_way_is_told",),
        model=True,
    ),
    Fault(
        says="a digest that was read is trimmed to a lower capacity",
        file="include/leasing.lua",
        old="local unread = digest.settled == false or (digest.attempt == 1 and not digest.frozen)",
        new="local unread = not digest.frozen",
        found_by=("test_what_may_have_gone_out_is_not_trimmed",),
        model=True,
    ),
    Fault(
        says="a failed attempt loses when the timeline became ready",
        file="include/leasing.lua",
        old="local since = slot.state == 'waiting' and now or slot.since",
        new="local since = now",
        found_by=("test_a_failed_opening_is_as_if_it_had_not_been",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="two digests of one claim have the same id",
        file="claim.lua",
        old="(request.first + #leases)",
        new="request.first",
        found_by=("test_a_claim_gives_no_more_than_its_limit",),
        model=True,
    ),
    Fault(
        says="a claim leaves what is due just now",
        file="claim.lua",
        old="(slot.state == 'waiting' and slot.at <= now)",
        new="(slot.state == 'waiting' and slot.at < now)",
        found_by=("test_what_waits_is_claimed_when_it_is_due",),
        model=True,
    ),
    Fault(
        says="a claim retires a timeline whose records are in a failed digest",
        file="claim.lua",
        old="return timeline.pending == 0 and (not digest or digest.records == 0)",
        new="return timeline.pending == 0 and (not digest or true)",
        found_by=("test_lapsed_leases_are_ended",),
        model=True,
    ),
    Fault(
        says="each order is claimed by itself, not the earliest of all",
        file="claimable.lua",
        old="""\
  if one[1] ~= other[1] then
    return one[1] < other[1]
  end
""",
        new="",
        found_by=("test_the_earliest_are_claimed_first_within_a_partition",),
        model=True,
    ),
    Fault(
        says="a paused timeline can be opened",
        file="open.lua",
        old="if slot.paused or is_live",
        new="if is_live",
        found_by=("test_a_paused_ready_timeline_is_not_opened",),
        model=True,
    ),
]

# Where a timeline stands in the orders of its partition: include/slots.lua, schedule.lua, due.lua.
ORDERS = [
    Fault(
        says="paused timelines stand in the way of the others",
        file="include/slots.lua",
        old="found.waiting = not paused and slot.at or nil",
        new="found.waiting = slot.at",
        found_by=("test_paused_timelines_do_not_hide_the_others[due]",),
    ),
    Fault(
        says="paused ready timelines stand in the way of the others",
        file="include/slots.lua",
        old="found.ready = not paused and slot.at or nil",
        new="found.ready = slot.at",
        found_by=("test_paused_timelines_do_not_hide_the_others[ready]",),
    ),
    Fault(
        says="a call of schedule gives a timeline twice",
        file="include/slots.lua",
        old="    slot.placed = next_number()\n",
        new="",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="a timeline that left a state stays in its order",
        file="include/slots.lua",
        old="    call('ZREM', order, name)\n",
        new="",
        found_by=("test_a_timeline_whose_records_were_all_taken_back_ends_by_itself",),
    ),
    Fault(
        says="the lease of a paused timeline is not found when it lapses",
        file="include/slots.lua",
        old="found[paused and 'paused' or 'leases'] = slot['until']",
        new="found.leases = not paused and slot['until'] or nil",
        found_by=("test_a_lapsed_lease_is_ended_though_the_timeline_is_paused",),
        model=True,
    ),
    Fault(
        says="a failed digest is not found when it expires",
        file="include/slots.lua",
        old="found.expiring = earlier(slot.expires, digest.expires)",
        new="found.expiring = slot.expires",
        found_by=("test_an_unfinished_digest_expires_too",),
        model=True,
    ),
    Fault(
        says="the name of a timeline that ended stays",
        file="include/slots.lua",
        old="      call('ZREM', NAMES, timeline.name)\n",
        new="",
        found_by=("test_a_timeline_whose_records_were_all_taken_back_ends_by_itself",),
    ),
    Fault(
        says="schedule gives what began to wait during the call",
        file="schedule.lua",
        old=" or (slot.placed or 0) > request.began then",
        new=" then",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="schedule does not say since when a timeline is ready",
        file="schedule.lua",
        old="slot.state, slot.since = 'ready', now",
        new="slot.state = 'ready'",
        found_by=("test_maintenance_counts_from_when_it_became_ready_not_from_when_it_was_due",),
        model=True,
    ),
    Fault(
        says="a page of schedule begins where the call began",
        file="due.lua",
        old="LIMIT', start,",
        new="LIMIT', 0,",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="a page of schedule passes one over among equal times",
        file="due.lua",
        old="  start = cut_ties(",
        new="  start = 1 + cut_ties(",
        found_by=("test_a_page_is_bounded_and_says_where_the_next_begins",),
    ),
    Fault(
        says="a due time at the deadline is left",
        file="due.lua",
        old="WAITING, '-inf', request.deadline, 'WITHSCORES'",
        new="WAITING, '-inf', '(' .. request.deadline, 'WITHSCORES'",
        found_by=("test_due_exactly_at_the_deadline_is_included",),
        model=True,
    ),
    Fault(
        says="names are compared by the language of the server",
        file="due.lua",
        old="return not is_after(member, name)",
        new="return member <= name",
        found_by=("test_schedule_misses_nothing_whatever_the_language_of_the_server",),
    ),
    Fault(
        says="nobody is woken",
        file="include/calls.lua",
        old="  if woken then\n",
        new="  if woken and false then\n",
        found_by=("test_who_waits_is_woken_when_a_timeline_can_be_taken[added]",),
    ),
    Fault(
        says="a timeline that is due at once wakes nobody",
        file="include/slots.lua",
        old=" or (after.waiting and after.waiting <= now)",
        new="",
        found_by=("test_who_waits_is_woken_when_a_timeline_can_be_taken[due at once]",),
    ),
]

# What an add does: add.lua, with its short way.
ADDING = [
    Fault(
        says="an add keeps one record more than the capacity",
        file="add.lua",
        old="math.max(timeline.pending - capacity, 0)",
        new="math.max(timeline.pending - capacity - 1, 0)",
        found_by=("test_a_dropped_key_that_comes_again_is_a_new_record",),
        model=True,
    ),
    Fault(
        says="the short way keeps one record more than the capacity",
        file="add.lua",
        old="joins = size < capacity and",
        new="joins = size <= capacity and",
        found_by=("test_a_dropped_key_that_comes_again_is_a_new_record",),
        model=True,
    ),
    Fault(
        says="the short way is taken by the first record",
        file="include/slots.lua",
        old="joins and pending > 0 and",
        new="joins and",
        found_by=("test_the_maximum_counts_from_the_first_that_came_during_a_digest",),
        model=True,
    ),
    Fault(
        says="the short way makes a batch longer than small ones are",
        file="add.lua",
        old="joins = joins and size < SMALL and",
        new="joins = joins and",
        found_by=("test_records_join_an_open_timeline_until_the_batch_is_large",),
    ),
    Fault(
        says="the short way puts a heavy record into a small batch",
        file="add.lua",
        old=" and #rest <= LIGHT",
        new="",
        found_by=("test_a_batch_becomes_large_with_a_heavy_record[5]",),
    ),
    Fault(
        says="the short way does not note that a record expires earlier",
        file="add.lua",
        old=" and expires >= read('>i7', slot, 2)",
        new="",
        found_by=("test_a_shorter_ttl_than_those_before_is_noticed",),
    ),
    Fault(
        says="the short way does not see that nothing expired so far",
        file="include/slots.lua",
        old="struct.pack('>i7', slot.expires or NEVER)",
        new="struct.pack('>i7', slot.expires or 0)",
        found_by=("test_a_shorter_ttl_than_those_before_is_noticed",),
    ),
    Fault(
        says="the short way is taken though a deadline may go",
        file="include/slots.lua",
        old="and not slot.deadline and (slot.large",
        new="and (slot.large",
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="the short way is taken while a timeline waits",
        file="include/slots.lua",
        old="(slot.state == 'waiting' and slot.digest)",
        new="(slot.state == 'waiting')",
        found_by=("test_increments_end_at_the_maximum_after_the_last_delivery",),
        model=True,
    ),
    Fault(
        says="the short way is taken beside the long one",
        file="add.lua",
        old="if within ~= within and not loaded[place] then",
        new="if within ~= within then",
        found_by=("test_capacity_holds_within_one_call_whatever_its_records_are",),
    ),
    Fault(
        says="the short way into a large batch forgets its order",
        file="add.lua",
        old="call('ZADD', keys[place + 1], read('>d', rest), write",
        new="call('ZSCORE', keys[place + 1], write",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="the short way into a large batch forgets when a record expires",
        file="add.lua",
        old="          call('ZADD', keys[place + 2], expires + SHIFT, 'x' .. key)\n",
        new="",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="the short way into a large batch leaves the older version in its order",
        file="add.lua",
        old="elseif joins and call('HEXISTS', hash, key) == 0 then",
        new="elseif joins then",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="the short way into a large batch puts a record beside its number",
        file="add.lua",
        old="write('>I8', arrival + 1) .. key",
        new="write('>I8', arrival) .. key",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="what the short way replaces is not in the ledger",
        file="add.lua",
        old="superseded + 1 - fresh",
        new="superseded",
        found_by=("test_the_same_key_again_replaces_the_record",),
        model=True,
    ),
    Fault(
        says="what an add replaces is counted as pending",
        file="add.lua",
        old="""\
    if put(batch, key, record, slot.deadline, before) then
      count('superseded', 1)
    else
      timeline.pending = before + 1
    end
""",
        new="""\
    put(batch, key, record, slot.deadline, before)
    timeline.pending = before + 1
""",
        found_by=("test_a_new_version_takes_its_place_among_ties_by_its_own_arrival",),
        model=True,
    ),
    Fault(
        says="what an add drops is not in its digest's count",
        file="add.lua",
        old="    slot.dropped = dropped > 0 and (slot.dropped or 0) + dropped or slot.dropped\n",
        new="",
        found_by=("test_the_newest_are_kept_and_the_others_counted",),
        model=True,
    ),
    Fault(
        says="a deadline stays when its record is replaced",
        file="add.lua",
        old="if within or slot.deadline then",
        new="if within then",
        found_by=("test_a_deadline_is_gone_with_a_record_that_was_dropped_or_expired",),
        model=True,
    ),
    Fault(
        says="an expiry is forgotten by a later record",
        file="add.lua",
        old="slot.expires = earlier(slot.expires, expires)",
        new="slot.expires = expires",
        found_by=("test_pending_records_expire_by_the_ttl_of_their_add[waiting]",),
        model=True,
    ),
    Fault(
        says="an urgent record joins as an ordinary one",
        file="add.lua",
        old="if within ~= within and not loaded[place] then",
        new="if not loaded[place] then",
        found_by=("test_it_is_urgent_behind_an_ordinary_record_too",),
        model=True,
    ),
    Fault(
        says="a policy of another record is applied",
        file="add.lua",
        old="ARGV[4], (policy - 1) * TERMS + 1)",
        new="ARGV[4], 1)",
        found_by=("test_each_record_of_a_call_has_its_own_policy",),
    ),
    Fault(
        says="a policy of another record is applied on the short way",
        file="add.lua",
        old="if policy ~= known then",
        new="if not known then",
        found_by=("test_each_record_of_a_call_has_its_own_policy",),
    ),
]

# Records and their orders: include/batches.lua, include/timelines.lua.
BATCHES = [
    Fault(
        says="records with the same time stand in no order",
        file="include/batches.lua",
        old="return struct.pack('>I8', arrival_of(record)) .. key",
        new="return struct.pack('<I8', arrival_of(record)) .. key",
        found_by=("test_two_thousand_records_of_one_moment_are_read_in_the_order_of_arrival",),
    ),
    Fault(
        says="a replaced record stays in the order of its batch",
        file="include/batches.lua",
        old="""\
    if old then
      unnote(batch, key, old)
    end
""",
        new="",
        found_by=("test_a_new_version_stands_where_its_own_time_is",),
    ),
    Fault(
        says="a record that is taken away stays in the order of its batch",
        file="include/batches.lua",
        old="""\
    unnote(batch, key, record)
    redis.call('HDEL', batch.records, key)
""",
        new="    redis.call('HDEL', batch.records, key)\n",
        found_by=("test_retracted_records_are_gone_from_every_order",),
    ),
    Fault(
        says="the deadline of a record that is gone stays",
        file="include/batches.lua",
        old="""\
  redis.call('ZREM', batch.times, 'x' .. key, 'u' .. key)
end

-- Put a record\
""",
        new="""\
  redis.call('ZREM', batch.times, 'x' .. key)
end

-- Put a record\
""",
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="the expiry of a record that is gone stays",
        file="include/batches.lua",
        old="""\
  redis.call('ZREM', batch.times, 'x' .. key, 'u' .. key)
end

-- Put a record\
""",
        new="""\
  redis.call('ZREM', batch.times, 'u' .. key)
end

-- Put a record\
""",
        found_by=("test_retracted_records_are_gone_from_every_order",),
    ),
    Fault(
        says="the times of a record that was dropped stay",
        file="include/batches.lua",
        old="""\
    redis.call('HDEL', batch.records, key)
    redis.call('ZREM', batch.times, 'x' .. key, 'u' .. key)
""",
        new="    redis.call('HDEL', batch.records, key)\n",
        found_by=("test_a_deadline_is_gone_with_a_record_that_was_dropped_or_expired",),
    ),
    Fault(
        says="a small batch is not enlarged before it is cut",
        file="include/batches.lua",
        old="""\
  enlarge(batch)
  for _, member\
""",
        new="  for _, member",
        found_by=("test_a_capacity_makes_a_small_batch_large_and_leaves_nothing",),
        model=True,
    ),
    Fault(
        says="batches are never large",
        file="include/batches.lua",
        old="    if effort > 0 or size >= 4 * SMALL then",
        new="    if size >= 4 * SMALL and false then",
        found_by=("test_a_batch_becomes_large_with_its_257th_record",),
    ),
    Fault(
        says="a heavy record does not make a batch large",
        file="include/batches.lua",
        old="size >= SMALL or string.len(record) > LIGHT",
        new="size >= SMALL",
        found_by=("test_a_batch_becomes_large_with_a_heavy_record[0]",),
    ),
    Fault(
        says="a batch that is enlarged forgets what it had",
        file="include/batches.lua",
        old="""\
      note(batch, key, record)
      effort = effort - 1
""",
        new="      effort = effort - 1\n",
        found_by=("test_a_batch_becomes_large_with_its_257th_record",),
        model=True,
    ),
    Fault(
        says="of many that are too full some lose a newer record",
        file="include/batches.lua",
        old="(at == timestamp and number < arrival)",
        new="(at == timestamp and number > arrival)",
        found_by=("test_many_full_timelines_drop_their_oldest_in_one_call",),
    ),
    Fault(
        says="one record more than was dropped is gone from the order",
        file="include/batches.lua",
        old="redis.call('ZREMRANGEBYRANK', batch.ages, 0, many - 1)",
        new="redis.call('ZREMRANGEBYRANK', batch.ages, 0, many)",
        found_by=("test_the_newest_are_kept_by_time_and_then_by_arrival",),
        model=True,
    ),
    Fault(
        says="the orders of a large batch are left behind",
        file="include/batches.lua",
        old="redis.call('UNLINK', batch.records, batch.ages, batch.times)",
        new="redis.call('UNLINK', batch.records)",
        found_by=("test_a_discarded_letter_leaves_nothing",),
    ),
    Fault(
        says="the times of a batch stay where it was",
        file="include/batches.lua",
        old="ipairs({ batch.ages, batch.times })",
        new="ipairs({ batch.ages })",
        found_by=("test_a_failed_digest_expires_each_record_at_its_moment",),
    ),
    Fault(
        says="the latest deadline counts",
        file="include/batches.lua",
        old="redis.call('ZREVRANGEBYSCORE', batch.times, '(0', '-inf',",
        new="redis.call('ZRANGEBYSCORE', batch.times, '-inf', '(0',",
        found_by=("test_the_earliest_deadline_counts",),
        model=True,
    ),
    Fault(
        says="records of large batches do not expire",
        file="include/batches.lua",
        old="""\
  if expires then
    redis.call('ZADD', batch.times, expires + SHIFT, 'x' .. key)
  end
""",
        new="",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="a digest carries the slot of its timeline",
        file="include/timelines.lua",
        old="    call('HDEL', KEYS[timeline.place + offset], '')\n",
        new="",
        found_by=("test_digesting_again_gives_the_same_records_and_the_new_ones",),
        model=True,
    ),
    Fault(
        says="the deadline of a retracted record stays",
        file="include/timelines.lua",
        old="""\
  elseif slot.deadline then
    slot.deadline = earliest_deadline(pending_of(timeline))
""",
        new="",
        found_by=("test_a_deadline_is_gone_with_its_record",),
        model=True,
    ),
    Fault(
        says="what was being merged is left behind",
        file="include/timelines.lua",
        old="    erase(merging_of(timeline))\n",
        new="",
        found_by=("test_a_half_merged_digest_can_be_closed",),
    ),
]

# What expires: include/expiring.lua, maintain.lua.
EXPIRING = [
    Fault(
        says="a record expires a moment late",
        file="include/expiring.lua",
        old="expires and expires <= now",
        new="expires and expires < now",
        found_by=("test_pending_records_expire_by_the_ttl_of_their_add[ready]",),
        model=True,
    ),
    Fault(
        says="a record of a large batch expires a moment late",
        file="include/expiring.lua",
        old="'(0', now + SHIFT, 'LIMIT'",
        new="'(0', now + SHIFT - 1, 'LIMIT'",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="a frozen digest expires before its last record, if large",
        file="include/expiring.lua",
        old="""\
    if redis.call('ZCOUNT', batch.times, '(0', '+inf') < redis.call('HLEN', batch.records) then
      return nil
    end
""",
        new="",
        found_by=("test_a_frozen_digest_expires_whole_with_its_last_record[None]",),
    ),
    Fault(
        says="a frozen digest expires with its first record, if large",
        file="include/expiring.lua",
        old="redis.call('ZREVRANGE', batch.times, 0, 0, 'WITHSCORES')",
        new="redis.call('ZRANGEBYSCORE', batch.times, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)",
        found_by=("test_a_frozen_digest_expires_whole_with_its_last_record[2000]",),
    ),
    Fault(
        says="a frozen digest expires though a record of it does not",
        file="include/expiring.lua",
        old="math.max(last, expiry_of(record) or NEVER)",
        new="math.max(last, expiry_of(record) or -NEVER)",
        found_by=("test_a_digest_that_may_have_gone_out_stays_while_a_record_does",),
    ),
    Fault(
        says="the next expiry of a large batch is not known",
        file="include/expiring.lua",
        old="return found[2] and tonumber(found[2]) - SHIFT or nil",
        new="return nil",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="a lost dispatch is found a moment late",
        file="maintain.lua",
        old="slot.since <= request.deadline",
        new="slot.since < request.deadline",
        found_by=("test_maintenance_lets_a_ready_timeline_wait_with_the_same_time",),
        model=True,
    ),
    Fault(
        says="a failed digest that lost records to expiry keeps its key",
        file="maintain.lua",
        old="  digest.revision = digest.revision + (gone > 0 and 1 or 0)\n",
        new="",
        found_by=("test_a_failed_digest_expires_each_record_at_its_moment",),
        model=True,
    ),
    Fault(
        says="a frozen digest expires a moment late",
        file="maintain.lua",
        old="  if last > now then\n",
        new="  if last >= now then\n",
        found_by=("test_a_digest_that_may_have_gone_out_expires_as_a_whole",),
        model=True,
    ),
    Fault(
        says="a frozen digest expires record by record",
        file="maintain.lua",
        old="digest.frozen and expire_frozen(timeline, batches) or expire_one_by_one",
        new="false and expire_frozen(timeline, batches) or expire_one_by_one",
        found_by=("test_a_digest_that_may_have_gone_out_expires_as_a_whole",),
        model=True,
    ),
    Fault(
        says="the bytes that expire in a call are not bounded",
        file="include/expiring.lua",
        old="while gone < #old and weight < HEAVY do",
        new="while gone < #old do",
        found_by=("test_heavy_records_expire_a_few_at_a_time",),
    ),
    Fault(
        says="maintenance does not say that heavy records are left",
        file="maintain.lua",
        old=", left or expired >= request.limit or weight >= HEAVY }",
        new=", expired >= request.limit }",
        found_by=("test_heavy_records_expire_a_few_at_a_time",),
    ),
    Fault(
        says="maintenance looks at a frozen digest again and again",
        file="maintain.lua",
        old="    digest.expires = last < NEVER and last or nil\n",
        new="",
        found_by=("test_what_can_not_expire_yet_is_not_in_the_way",),
    ),
    Fault(
        says="what is being merged does not expire",
        file="maintain.lua",
        old="    table.insert(batches, merging_of(timeline))\n",
        new="",
        found_by=("test_a_half_merged_digest_that_was_given_back_expires_whole",),
    ),
    Fault(
        says="an open digest expires",
        file="maintain.lua",
        old="if not digest or slot.state == 'open' or digest.replayed or limit == 0 then",
        new="if not digest or digest.replayed or limit == 0 then",
        found_by=("test_an_open_digest_stays_when_what_is_pending_expires",),
    ),
    Fault(
        says="the next expiry of a timeline is not noted",
        file="maintain.lua",
        old="slot.expires = timeline.pending > 0 and earliest_expiry(batch) or nil",
        new="slot.expires = nil",
        found_by=("test_pending_records_expire_by_the_ttl_of_their_add[ready]",),
    ),
    Fault(
        says="the next expiry of a failed digest is not noted",
        file="maintain.lua",
        old="  digest.expires = next_expiry\n",
        new="  digest.expires = nil\n",
        found_by=("test_a_failed_digest_expires_record_by_record",),
    ),
    Fault(
        says="the leases of paused timelines do not lapse",
        file="overdue.lua",
        old="merged(until_now(LEASES, now), until_now(PAUSED, now))",
        new="merged(until_now(LEASES, now), {})",
        found_by=("test_a_lapsed_lease_is_ended_though_the_timeline_is_paused",),
        model=True,
    ),
]

# What is read and merged: include/paging.lua, settle.lua, take.lua.
READING = [
    Fault(
        says="a page among equal times begins one too early",
        file="include/paging.lua",
        old=">= arrival",
        new="> arrival",
        found_by=("test_ties_are_read_in_the_order_of_arrival_over_pages",),
    ),
    Fault(
        says="a page begins with what the last had",
        file="include/paging.lua",
        old="'(' .. timestamp, '+inf'",
        new="timestamp, '+inf'",
        found_by=("test_ties_are_read_in_the_order_of_arrival_over_pages",),
    ),
    Fault(
        says="a page of heavy records is not made shorter",
        file="include/paging.lua",
        old="""\
    if bytes > HEAVY then
      return flat, false
    end
""",
        new="",
        found_by=("test_pages_of_heavy_records_are_short_and_none_is_left_out",),
    ),
    Fault(
        says="a page of heavy records counts as the last",
        file="include/paging.lua",
        old="""\
      return flat, false
    end
  end
  return flat, #members < limit\
""",
        new="""\
      return flat, true
    end
  end
  return flat, #members < limit\
""",
        found_by=("test_pages_of_heavy_records_are_short_and_none_is_left_out",),
    ),
    Fault(
        says="a full page counts as the last",
        file="include/paging.lua",
        old="return flat, #members < limit",
        new="return flat, #members <= limit",
        found_by=("test_a_digest_is_read_in_pages[1001]",),
    ),
    Fault(
        says="the bytes of a reply are not bounded",
        file="take.lua",
        old="  allowed = weight < HEAVY and allowed or 0\n",
        new="",
        found_by=("test_digests_of_one_call_share_the_bytes_of_its_reply",),
    ),
    Fault(
        says="records of a small page with the same time stand the other way round",
        file="include/paging.lua",
        old="return one.arrival > other.arrival",
        new="return one.arrival < other.arrival",
        found_by=("test_records_of_one_moment_are_read_in_pages_the_latest_first[7]",),
    ),
    Fault(
        says="a small page is longer than its limit",
        file="include/paging.lua",
        old="if #flat == limit * 2 then",
        new="if #flat > limit * 2 then",
        found_by=("test_several_digests_share_the_page_of_one_call[180]",),
    ),
    Fault(
        says="history names the oldest records",
        file="include/paging.lua",
        old="ipairs(redis.call('ZREVRANGE', batch.ages, 0, limit - 1))",
        new="ipairs(redis.call('ZRANGE', batch.ages, 0, limit - 1))",
        found_by=("test_a_discarded_letter_leaves_nothing",),
    ),
    Fault(
        says="history names one record too many, of a large digest",
        file="include/paging.lua",
        old="ipairs(redis.call('ZREVRANGE', batch.ages, 0, limit - 1))",
        new="ipairs(redis.call('ZREVRANGE', batch.ages, 0, limit))",
        found_by=("test_a_discarded_letter_leaves_nothing",),
    ),
    Fault(
        says="a merge ends with its first full page",
        file="settle.lua",
        old="if moved == #keys and moved < limit then",
        new="if moved == #keys then",
        found_by=("test_large_digests_are_merged_in_pages",),
    ),
    Fault(
        says="a merge of heavy records ends with its first page",
        file="settle.lua",
        old="if moved == #keys and moved < limit then",
        new="if moved < limit then",
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="the bytes that a call merges are not bounded",
        file="settle.lua",
        old="while moved < #keys and bytes < HEAVY do",
        new="while moved < #keys do",
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="what a merge replaces is still in the digest's count",
        file="settle.lua",
        old="  digest.records = digest.records - superseded\n",
        new="",
        found_by=("test_a_later_version_of_a_failed_record_wins",),
        model=True,
    ),
    Fault(
        says="what a merge replaces is not in the ledger",
        file="settle.lua",
        old="  count('superseded', superseded)\n",
        new="",
        found_by=("test_a_later_version_of_a_failed_record_wins",),
        model=True,
    ),
    Fault(
        says="each digest of a call is settled by a whole page",
        file="settle.lua",
        old="    allowed = allowed - settle(timeline, wanted[2] or nil, wanted[3], allowed)\n",
        new="    settle(timeline, wanted[2] or nil, wanted[3], allowed)\n",
        found_by=("test_digests_of_one_call_share_what_it_merges",),
    ),
    Fault(
        says="a digest is trimmed before it is merged whole",
        file="settle.lua",
        old="""\
  if digest.merging then
    return 0
  end
  local dropped\
""",
        new="  local dropped",
        found_by=("test_large_digests_are_merged_in_pages",),
    ),
    Fault(
        says="a digest that is not yet trimmed counts as settled",
        file="settle.lua",
        old="    digest.settled = false\n",
        new="    digest.settled = nil\n",
        found_by=("test_a_large_merge_respects_capacity",),
    ),
    Fault(
        says="what a trim drops is not in the digest's count",
        file="settle.lua",
        old="  digest.dropped = digest.dropped + dropped\n",
        new="",
        found_by=("test_a_failed_digest_and_newer_records_share_the_capacity",),
        model=True,
    ),
    Fault(
        says="digests of one call are read a whole page each",
        file="take.lua",
        old="  allowed = allowed - #flat / 2\n",
        new="",
        found_by=("test_several_digests_share_the_page_of_one_call[400]",),
    ),
    Fault(
        says="a digest is read before it is trimmed",
        file="take.lua",
        old="if digest.deciding or digest.settled == false or excess(digest, capacity) > 0 then",
        new="if digest.deciding or digest.settled == false then",
        found_by=("test_a_lower_capacity_trims_what_was_added_under_a_higher_one",),
        model=True,
    ),
    Fault(
        says="a half merged digest is read",
        file="take.lua",
        old="if digest.deciding or digest.settled == false or excess",
        new="if digest.deciding or excess",
        found_by=("test_large_digests_are_merged_in_pages",),
    ),
]

# How digests and letters end: include/ending.lua and the verbs.
ENDING = [
    Fault(
        says="history grows for ever",
        file="include/ending.lua",
        old="call('HSET', HISTORY, number % ring,",
        new="call('HSET', HISTORY, number,",
        found_by=("test_history_keeps_a_bounded_number_of_digests",),
    ),
    Fault(
        says="history forgets too early",
        file="include/ending.lua",
        old="call('HSET', HISTORY, number % ring,",
        new="call('HSET', HISTORY, number % (ring - 1),",
        found_by=("test_history_keeps_a_bounded_number_of_digests",),
    ),
    Fault(
        says="a dead letter that ended stays in its timeline's order",
        file="include/ending.lua",
        old="  call('ZREM', dead, letter_member(letter))\n",
        new="",
        found_by=("test_a_discarded_letter_is_counted_deleted",),
    ),
    Fault(
        says="a dead letter that ended stays in the order of all",
        file="include/ending.lua",
        old="  call('ZREM', LETTERS, letter_member(letter))\n",
        new="",
        found_by=("test_a_discarded_letter_is_counted_deleted",),
    ),
    Fault(
        says="a dead letter is not in the order of its timeline",
        file="include/ending.lua",
        old="  call('ZADD', KEYS[timeline.place + DEAD], now, letter_member(letter))\n",
        new="",
        found_by=("test_the_latest_letter_with_a_record_is_found",),
    ),
    Fault(
        says="dead letters of one moment stand in no order",
        file="include/ending.lua",
        old="return string.format('%016.0f', letter.number) .. letter.id",
        new="return string.format('%016.0f', 0) .. letter.id",
        found_by=("test_letters_of_one_moment_come_in_the_order_of_their_burial[1]",),
    ),
    Fault(
        says="a half merged digest is buried without what is being merged",
        file="bury.lua",
        old="if digest and digest.merging then",
        new="if digest and digest.merging and false then",
        found_by=("test_a_half_merged_digest_is_not_buried",),
    ),
    Fault(
        says="a digest without a record becomes a dead letter",
        file="bury.lua",
        old="  if digest.records > 0 then\n",
        new="  if digest.records >= 0 then\n",
        found_by=("test_an_empty_digest_makes_no_dead_letter",),
        model=True,
    ),
    Fault(
        says="a delivered digest leaves its records behind",
        file="close.lua",
        old="    erase_digest(timeline)\n",
        new="",
        found_by=("test_close_leaves_nothing_of_a_large_digest",),
    ),
    Fault(
        says="a digest that lost a record keeps its key",
        file="set_aside.lua",
        old="  digest.revision = digest.revision + 1\n",
        new="",
        found_by=("test_a_digest_that_lost_a_value_has_another_key",),
    ),
    Fault(
        says="each call that sets aside raises the revision",
        file="set_aside.lua",
        old="  digest.revision = digest.revision - 1 -- what all of the letters tell, before it is raised once\n",
        new="",
        found_by=("test_more_than_a_call_can_set_aside_is_one_change_of_the_digest[0]",),
    ),
    Fault(
        says="a replayed digest begins where it ended",
        file="replay.lua",
        old="  attempt = 0,\n",
        new="  attempt = letter.attempts,\n",
        found_by=("test_a_replayed_digest_comes_again_under_its_id",),
        model=True,
    ),
    Fault(
        says="a replayed digest is merged",
        file="replay.lua",
        old="  frozen = true,\n",
        new="",
        found_by=("test_a_replayed_digest_is_never_merged",),
        model=True,
    ),
    Fault(
        says="a replayed digest carries its letter",
        file="replay.lua",
        old="call('HDEL', KEYS[place], '')\n",
        new="",
        found_by=("test_a_dead_letter_comes_back_as_it_was[light]",),
    ),
    Fault(
        says="a dead letter is replayed over an unfinished digest",
        file="replay.lua",
        old="if slot.digest then\n",
        new="if slot.digest and slot.state == 'open' then\n",
        found_by=("test_an_unfinished_digest_is_in_the_way",),
        model=True,
    ),
    Fault(
        says="a deleted timeline is remembered",
        file="delete.lua",
        old="    call('HDEL', HISTORY, place)\n",
        new="",
        found_by=("test_a_deleted_timeline_has_no_history",),
    ),
    Fault(
        says="the records of deleted letters are left behind",
        file="delete.lua",
        old="      erase(batch_found_at(place))\n",
        new="",
        found_by=("test_many_dead_letters_are_deleted_in_pages",),
    ),
    Fault(
        says="the digest of a deleted timeline is left behind",
        file="delete.lua",
        old="""\
if slot.digest then
  erase_digest(timeline)
end
""",
        new="",
        found_by=("test_a_half_merged_digest_can_be_deleted",),
    ),
    Fault(
        says="a discarded letter leaves its records behind",
        file="discard.lua",
        old="erase(batch)\n",
        new="",
        found_by=("test_a_discarded_letter_is_counted_deleted",),
    ),
    Fault(
        says="an extension is not kept",
        file="extend.lua",
        old="    save_timeline(timeline)\n",
        new="",
        found_by=("test_an_extended_lease_lives_longer",),
        model=True,
    ),
    Fault(
        says="a release does not freeze",
        file="release.lua",
        old="release[3] or nil, release[2])",
        new="release[3] or nil, false)",
        found_by=("test_with_redelivery_same_a_failed_digest_expires_as_a_whole",),
        model=True,
    ),
    Fault(
        says="a retract of the empty key takes the slot",
        file="retract.lua",
        old="if ARGV[4] == '' or not pull",
        new="if not pull",
        found_by=("test_the_empty_key_is_no_record",),
    ),
    Fault(
        says="a flushed timeline is due when it was",
        file="flush.lua",
        old="'ready', slot.at, now, now, 'flushed'",
        new="'ready', slot.at, slot.at, now, 'flushed'",
        found_by=("test_a_flushed_timeline_is_due_and_ready_since_then",),
        model=True,
    ),
]

# Calls that come twice or late: include/calls.lua.
CALLING = [
    Fault(
        says="an add that is repeated counts twice",
        file="add.lua",
        old="struct.unpack('>d', noted) >= tonumber(ARGV[1])",
        new="struct.unpack('>d', noted) > tonumber(ARGV[1])",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="an add on the short way is not noted",
        file="add.lua",
        old="call('HSET', KEYS[1], ARGV[2], noting, 'accepted'",
        new="call('HSET', KEYS[1], 'accepted'",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="a call that is repeated counts twice",
        file="include/calls.lua",
        old="  if behind < 0 then\n",
        new="  if behind <= 0 then\n",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="a call that comes too late is made",
        file="include/calls.lua",
        old="""\
  if behind == 0 then
    return string.sub(noted, 17)
  end
  return redis.error_reply('DIGESTIF_OVERTAKEN a later call of the same caller was here before')\
""",
        new="""\
  if behind == 0 then
    return string.sub(noted, 17)
  end
  return nil\
""",
        found_by=("test_a_call_that_comes_after_a_later_one_is_not_done",),
    ),
    Fault(
        says="a call that comes too late gets the answer of another",
        file="include/calls.lua",
        old="  if behind == 0 then\n",
        new="  if behind >= 0 then\n",
        found_by=("test_a_call_that_comes_after_a_later_one_is_not_done",),
    ),
    Fault(
        says="answers are kept for ever",
        file="include/calls.lua",
        old="    if noted + KEPT < clock then\n",
        new="    if noted + KEPT < clock and false then\n",
        found_by=("test_answers_to_callers_that_are_gone_are_forgotten",),
    ),
]

FAULTS = [*PLACING, *LEASING, *ORDERS, *ADDING, *BATCHES, *EXPIRING, *READING, *ENDING, *CALLING]
