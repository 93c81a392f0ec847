"""Faults in the scripts that easily could be made: what to change in which file, and which sentences must find it."""

from tests.nets.patches import ScriptFault as Fault

# Where a timeline is placed: include/machine.lua.
PLACING = [
    Fault(
        says="a stream of records puts a digest off for ever",
        file="include/machine.lua",
        old="  if at <= cap then\n",
        new="  if at <= cap or true then\n",
        found_by=("test_increments_end_at_the_maximum_after_the_last_delivery",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a timeline is full with one record more than max_records",
        file="include/machine.lua",
        old="pending >= max_records",
        new="pending > max_records",
        found_by=("test_enough_records_make_a_timeline_due_at_once",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a record puts off the retry of a failed digest",
        file="include/machine.lua",
        old="elseif slot.state == 'waiting' and not slot.digest and",
        new="elseif slot.state == 'waiting' and",
        found_by=("test_a_retry_is_not_put_off_nor_pulled_forward",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an urgent record is forgotten at the completion",
        file="include/machine.lua",
        old="""\
  plan = plan_in_force(plan, slot)
  move(\
""",
        new="""\
  plan = plan_in_force(plan, slot)
  slot.deadline = nil
  move(\
""",
        found_by=("test_it_is_urgent_after_a_digest_that_was_open_when_it_came",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an empty digest counts as a delivery",
        file="include/machine.lua",
        old="delivered and slot.iteration + 1 or 0",
        new="slot.iteration + 1",
        found_by=("test_an_empty_digest_resets_the_iteration",),
        model=True,
        vectors=True,
    ),
]

# Who may do what, and what becomes of a digest: include/machine.lua.
LEASING = [
    Fault(
        says="an open digest can be ended with any token",
        file="include/machine.lua",
        old="return slot.token == token and is_live(slot, now)",
        new="return is_live(slot, now)",
        found_by=("test_a_stale_token_changes_nothing[taken over]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a lease lives a moment longer than it says",
        file="include/machine.lua",
        old="and now < slot['until']",
        new="and now <= slot['until']",
        found_by=("test_an_open_timeline_is_busy_until_its_lease_lapses",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that lapsed is merged with newer records",
        file="include/machine.lua",
        old="slot.digest = kept(slot.digest, true)",
        new="slot.digest = kept(slot.digest, false)",
        found_by=("test_a_lost_lease_gives_exactly_the_same_digest_again",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="lapses are not counted",
        file="include/machine.lua",
        old="slot.digest.lapses, slot.digest.largest = slot.digest.lapses + 1, largest",
        new="slot.digest.largest = largest",
        found_by=("test_lapsed_leases_are_ended",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a merged digest comes under the key that it had before",
        file="include/machine.lua",
        old="  digest.revision = digest.revision + 1\n  digest.settled = false\n",
        new="  digest.settled = false\n",
        found_by=("test_the_revision_rises_with_what_joined_after_a_reported_failure",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that nothing joined gets another key",
        file="include/machine.lua",
        old="if not merge or (pending == 0 and (slot.dropped or 0) == 0) then",
        new="if not merge then",
        found_by=("test_a_digest_that_nothing_joined_keeps_its_key[True]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that was put off counts as one that no attempt has read",
        file="include/machine.lua",
        old="slot.digest.fresh = slot.digest.fresh and not release.read or nil",
        new="slot.digest.fresh = slot.digest.fresh",
        found_by=("test_under_a_lower_capacity_a_digest_that_was_read_stays_whole[False]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="records of a digest that was given back do not expire",
        file="include/machine.lua",
        old="    expires = slot.expires,\n",
        new="",
        found_by=("test_a_failed_digest_expires_record_by_record",),
        model=True,
    ),
    Fault(
        says="records that were merged into a digest do not expire",
        file="include/machine.lua",
        old="  digest.expires = earlier(digest.expires, slot.expires)\n",
        new="",
        found_by=("test_what_joined_a_failed_digest_expires_by_its_own_time",),
    ),
    Fault(
        says="a merge keeps one record more than the capacity",
        file="include/machine.lua",
        old="return digest.records - capacity\n",
        new="return digest.records - capacity - 1\n",
        found_by=("test_a_failed_digest_and_newer_records_share_the_capacity",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that was read is trimmed to a lower capacity",
        file="include/machine.lua",
        old="return digest.settled == false or digest.fresh",
        new="return not digest.frozen",
        found_by=("test_what_may_have_gone_out_is_not_trimmed",),
        model=True,
        vectors=True,
    ),
]

# Digests whose lease lapsed: include/machine.lua, claim_suspects.lua, claimable.lua, and what is noted of them.
SUSPECTS = [
    Fault(
        says="a claim does not report suspects",
        file="claimable.lua",
        old="local reply = { suspect[2] or false }",
        new="local reply = { false }",
        found_by=("test_a_claim_leaves_lapsed_leases_and_tells_when_the_first_of_them_lapsed",),
    ),
    Fault(
        says="a lease is suspected a moment before it lapses",
        file="claimable.lua",
        old="call('ZRANGEBYSCORE', LEASES, '-inf', now, 'WITHSCORES'",
        new="call('ZRANGEBYSCORE', LEASES, '-inf', now + 1, 'WITHSCORES'",
        found_by=("test_a_claim_leaves_lapsed_leases_and_tells_when_the_first_of_them_lapsed",),
    ),
    Fault(
        says="claims look through what they leave to others",
        file="claimable.lua",
        old="collect(WAITING, now)\n",
        new="collect(WAITING, now)\ncollect(LEASES, now)\n",
        found_by=("test_a_claim_that_finds_nothing_tells_of_suspects_in_its_one_round_trip",),
    ),
    Fault(
        says="a digest that lapsed in a group is tried in as large a group again",
        file="include/machine.lua",
        old="math.max(1, math.floor(group / 2))",
        new="group",
        found_by=("test_a_group_that_lapsed_is_tried_in_halves",),
        vectors=True,
    ),
    Fault(
        says="suspects join a group that is too large for them",
        file="include/machine.lua",
        old="return group_size(suspect, size) == size",
        new="return true",
        found_by=("test_one_that_may_not_join_a_group_is_passed_over",),
        vectors=True,
    ),
    Fault(
        says="the first suspect does not decide how large its group is",
        file="include/machine.lua",
        old="return math.min(size, largest_group(first) or size)",
        new="return size",
        found_by=("test_one_that_lapsed_by_itself_is_tried_by_itself",),
        vectors=True,
    ),
    Fault(
        says="what another suspect decided is decided again",
        file="claim_suspects.lua",
        old="request.is_decided and size or group_size(timeline.slot, size)",
        new="group_size(timeline.slot, size)",
        found_by=("test_one_that_may_not_join_a_group_is_passed_over",),
    ),
    Fault(
        says="a lease that an earlier release noted as alone proves nothing",
        file="include/machine.lua",
        old="return slot.group or (slot.alone and 1) or 0",
        new="return slot.group or 0",
        found_by=("test_a_lease_that_an_earlier_release_noted_as_alone_is_a_group_of_one",),
        vectors=True,
    ),
    Fault(
        says="a suspect whose lease is alive again is taken over",
        file="include/machine.lua",
        old="return slot.state == 'open' and slot['until'] <= now",
        new="return slot.state == 'open'",
        found_by=("test_a_suspect_that_changed_since_it_was_found_is_left_alone[claimed]",),
        vectors=True,
    ),
    Fault(
        says="a suspect that was paused meanwhile is opened",
        file="claim_suspects.lua",
        old="return not slot.paused and is_suspect(slot, now)",
        new="return is_suspect(slot, now)",
        found_by=("test_a_suspect_that_changed_since_it_was_found_is_left_alone[paused]",),
    ),
    Fault(
        says="several are noted to be alone",
        file="claim_suspects.lua",
        old="request.alone and size or 0",
        new="request.alone and 1 or 0",
        found_by=("test_of_several_the_size_that_was_asked_for_is_noted",),
    ),
    Fault(
        says="a lapse beside others counts as one that was alone",
        file="include/machine.lua",
        old="    if tried_in(slot) == 1 then\n",
        new="    if true then\n",
        found_by=("test_suspects_are_tried_in_groups_as_large_as_the_worker_asks",),
        vectors=True,
    ),
    Fault(
        says="it is not noted that a digest is alone",
        file="include/machine.lua",
        old="slot.group, slot.alone = group and group > 0 and slot.digest.lapses > 0 and group or nil, nil",
        new="slot.group, slot.alone = nil, nil",
        found_by=("test_a_second_lapse_of_a_digest_that_was_alone_is_known",),
        vectors=True,
    ),
    Fault(
        says="a digest that never lapsed is noted to be alone",
        file="include/machine.lua",
        old="group and group > 0 and slot.digest.lapses > 0 and group or nil, nil",
        new="group and group > 0 and group or nil, nil",
        found_by=("test_opening_notes_that_it_is_alone_once_its_digest_has_lapsed",),
        vectors=True,
    ),
    Fault(
        says="a digest that failed is still alone",
        file="include/machine.lua",
        old="slot.state, slot.token, slot['until'], slot.group = 'ready', nil, nil, nil\n",
        new="slot.state, slot.token, slot['until'] = 'ready', nil, nil\n",
        found_by=("test_however_a_lease_ends_it_is_not_alone_any_more[failed]",),
        vectors=True,
    ),
    Fault(
        says="a timeline whose digest ended is still alone",
        file="include/machine.lua",
        old="slot.digest, slot.token, slot['until'], slot.group, slot.passes = nil, nil, nil, nil, nil\n",
        new="slot.digest, slot.token, slot['until'], slot.passes = nil, nil, nil, nil\n",
        found_by=("test_however_a_lease_ends_it_is_not_alone_any_more[completed]",),
        vectors=True,
    ),
    Fault(
        says="what is known of a digest that was alone stays behind in a move",
        file="include/transfer.lua",
        old="    lapses_alone = digest.lapses_alone,\n",
        new="",
        found_by=("test_lapses_alone_move_along[server]",),
        vectors=True,
    ),
    Fault(
        says="the upkeep of workers makes ordinary timelines of suspects",
        file="maintain.lua",
        old=" or not (request.deadline or slot.paused) then",
        new=" then",
        found_by=("test_a_timeline_that_was_resumed_meanwhile_is_left_to_those_who_try_suspects",),
    ),
]

# Where a timeline stands in the orders of its partition: include/timelines.lua, due.lua.
ORDERS = [
    Fault(
        says="paused timelines stand in the way of the others",
        file="include/timelines.lua",
        old="found.waiting = not paused and slot.at or nil",
        new="found.waiting = slot.at",
        found_by=("test_paused_timelines_do_not_hide_the_others[due]",),
    ),
    Fault(
        says="paused ready timelines stand in the way of the others",
        file="include/timelines.lua",
        old="found.ready = not paused and slot.at or nil",
        new="found.ready = slot.at",
        found_by=("test_paused_timelines_do_not_hide_the_others[ready]",),
    ),
    Fault(
        says="a call of schedule gives a timeline twice",
        file="include/timelines.lua",
        old="    slot.placed = next_of('number')\n",
        new="",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="a timeline that left a state stays in its order",
        file="include/timelines.lua",
        old="    call('ZREM', order, name)\n",
        new="",
        found_by=("test_a_timeline_whose_records_were_all_taken_back_ends_by_itself",),
    ),
    Fault(
        says="the lease of a paused timeline is not found when it lapses",
        file="include/timelines.lua",
        old="found.paused = state == 'open' and slot['until'] or UNLEASED",
        new="found.paused = UNLEASED",
        found_by=("test_a_lapsed_lease_is_ended_though_the_timeline_is_paused",),
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
        says="names are compared by the language of the server",
        file="include/places.lua",
        old="return not is_after(member, name)",
        new="return member <= name",
        found_by=("test_schedule_misses_nothing_whatever_the_language_of_the_server",),
    ),
    Fault(
        says="a page of a state's timelines begins at the first",
        file="order.lua",
        old="start, start + tonumber(ARGV[1]) - 1",
        new="0, tonumber(ARGV[1]) - 1",
        found_by=("test_timelines_that_are_due_at_the_same_time_come_once_each",),
    ),
    Fault(
        says="removed documents count as bytes",
        file="keep.lua",
        old="  remove_document(oldest, stored, collection)\n",
        new="  remove_document(oldest, stored, collection)\n  total.bytes = total.bytes + string.len(body)\n",
        found_by=("test_the_oldest_are_removed_beyond_the_bytes",),
    ),
    Fault(
        says="a document replaces any other that is there, whatever it was compared with",
        file="keep.lua",
        old="if not is_there or body_of(found) ~= ARGV[6] then",
        new="if not is_there then",
        found_by=("test_a_document_is_replaced_by_comparison_only_where_its_body_is_there",),
    ),
    Fault(
        says="a document is forgotten whatever it was compared with",
        file="forget.lua",
        old=" and not (request.compares and body_of(stored) ~= ARGV[5])",
        new="",
        found_by=("test_a_document_is_forgotten_by_comparison_only_where_its_body_is_there",),
    ),
    Fault(
        says="documents of named rings that are too old stay behind those of the ring without a name",
        file="keep.lua",
        old="ipairs({ '-inf', NAMED })",
        new="ipairs({ '-inf' })",
        found_by=("test_documents_that_are_too_old_leave_every_ring",),
    ),
    Fault(
        says="ids of digests count the others of their claim",
        file="include/claims.lua",
        old="derived_id(request.token, timeline.name)",
        new="derived_id(request.token, tostring(#leases))",
        found_by=("test_the_id_of_a_digest_does_not_depend_on_others_in_its_claim[claimed]",),
    ),
    Fault(
        says="documents of all rings count as entries of each",
        file="keep.lua",
        old="return call('ZLEXCOUNT', INDEX, '[' .. first, '(' .. first .. NO_TEXT)",
        new="return call('ZCARD', ORDER)",
        found_by=("test_documents_of_a_ring_push_out_only_each_other",),
    ),
    Fault(
        says="a record that joins the short way does not know when it is due",
        file="add.lua",
        old="write('>d', fully.due_of(slot) or 0 / 0)",
        new="write('>d', 0 / 0)",
        found_by=("test_a_record_that_joins_a_ready_timeline_is_due_with_it",),
    ),
    Fault(
        says="listeners are not woken",
        file="include/calls.lua",
        old="  if woken then\n",
        new="  if woken and false then\n",
        found_by=("test_who_waits_is_woken_when_a_timeline_can_be_taken[added]",),
    ),
]

# What an add does: add.lua, with its short way.
ADDING = [
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
        file="include/timelines.lua",
        old="if not joins or pending == 0 or slot.deadline",
        new="if not joins or slot.deadline",
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
        says="a burst is put in beyond the capacity",
        file="add.lua",
        old="            and size + together < capacity\n",
        new="",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[beyond a capacity]",),
    ),
    Fault(
        says="a burst is put in beyond what a small batch may have",
        file="add.lua",
        old="            and size + together < SMALL\n",
        new="",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[until it is large]",),
    ),
    Fault(
        says="a burst puts a heavy record into a small batch",
        file="add.lua",
        old="            and #arguments[5 + (record + together) * 2] <= LIGHT\n",
        new="",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[heavy in between]",),
    ),
    Fault(
        says="a burst is put in, and its records again",
        file="add.lua",
        old="  record = record + together\n",
        new="  record = record + 1\n",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[small]",),
    ),
    Fault(
        says="the short way puts a heavy record into a small batch",
        file="add.lua",
        old=" and #rest <= LIGHT",
        new="",
        found_by=("test_a_batch_becomes_large_with_a_heavy_record[5]",),
    ),
    Fault(
        says="the short way does not note that a large value arrived",
        file="add.lua",
        old=" and #rest <= USUAL_PAYLOAD",
        new="",
        found_by=("test_large_values_are_weighed_beside_small_ones[sync]",),
    ),
    Fault(
        says="a timeline does not notice that a large value arrived",
        file="add.lua",
        old=" or #record > USUAL_PAYLOAD",
        new="",
        found_by=("test_a_digest_holds_the_newest_of_the_largest_values[sync]",),
    ),
    Fault(
        says="the short way does not note that a record expires earlier",
        file="add.lua",
        old=" and expires >= read('>i7', slot, 2)",
        new="",
        found_by=("test_a_shorter_ttl_than_those_before_is_noticed",),
    ),
    Fault(
        says="the short way is taken though a deadline may go",
        file="include/timelines.lua",
        old="pending == 0 or slot.deadline or",
        new="pending == 0 or",
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="the short way is taken beside the long one",
        file="add.lua",
        old="if within ~= within and not loaded[timeline] then",
        new="if within ~= within then",
        found_by=("test_capacity_holds_within_one_call_whatever_its_records_are",),
    ),
    Fault(
        says="the short way into a large batch forgets its order",
        file="add.lua",
        old="try('ZADD', keys[ages], read('>d', rest), write",
        new="try('ZSCORE', keys[ages], write",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="the short way into a large batch leaves the older version in its order",
        file="add.lua",
        old=" and call('HEXISTS', hash, key) == 0 then",
        new=" then",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="a record that needs orders is put in without them",
        file="add.lua",
        old="      return '?'\n",
        new="      timeline.batch.ages, timeline.batch.times = timeline.key .. 'a', timeline.key .. 'x'\n",
        found_by=("test_records_that_need_orders_follow_in_their_order",),
    ),
    Fault(
        says="a record overtakes one of its timeline that was left out",
        file="add.lua",
        old="      timeline.leaves_out = true\n",
        new="",
        found_by=("test_a_record_behind_one_that_was_left_out_does_not_overtake_it",),
    ),
    Fault(
        says="orders are taken for those of another timeline",
        file="add.lua",
        old="KEYS[ORDERS + 2 * number], KEYS[ORDERS + 2 * number + 1]",
        new="KEYS[ORDERS + 2 * ordered], KEYS[ORDERS + 2 * ordered + 1]",
        found_by=("test_large_timelines_of_one_call_have_orders_of_their_own",),
    ),
    Fault(
        says="what the short way replaces is not in the ledger",
        file="add.lua",
        old="superseded + together - fresh",
        new="superseded",
        found_by=("test_the_same_key_again_replaces_the_record",),
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
        old="if within ~= within and not loaded[timeline] then",
        new="if not loaded[timeline] then",
        found_by=("test_it_is_urgent_behind_an_ordinary_record_too",),
        model=True,
    ),
    Fault(
        says="a policy of another record is applied on the short way",
        file="add.lua",
        old="if policy ~= known or is_own then",
        new="if not known or is_own then",
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
      remove_from_orders(batch, key, old)
    end
""",
        new="",
        found_by=("test_a_new_version_stands_where_its_own_time_is",),
    ),
    Fault(
        says="a record that is taken away stays in the order of its batch",
        file="include/batches.lua",
        old="""\
    remove_from_orders(batch, key, record)
    call('HDEL', batch.records, key)
""",
        new="    call('HDEL', batch.records, key)\n",
        found_by=("test_retracted_records_are_gone_from_every_order",),
    ),
    Fault(
        says="the deadline of a record that is gone stays",
        file="include/batches.lua",
        old="""\
  call('ZREM', batch.times, 'x' .. key, 'u' .. key)
  return batch.large\
""",
        new="""\
  call('ZREM', batch.times, 'x' .. key)
  return batch.large\
""",
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="batches are never large",
        file="include/batches.lua",
        old="    if effort > 0 or size >= 4 * SMALL then",
        new="    if size >= 4 * SMALL and false then",
        found_by=("test_a_batch_becomes_large_with_its_257th_record",),
    ),
    Fault(
        says="of many that are too full some lose a newer record",
        file="include/batches.lua",
        old="(at == timestamp and arrival_of(record) < arrival)",
        new="(at == timestamp and arrival_of(record) > arrival)",
        found_by=("test_many_full_timelines_drop_their_oldest_in_one_call",),
    ),
    Fault(
        says="the orders of a large batch are left behind",
        file="include/batches.lua",
        old="call('UNLINK', batch.records, batch.ages, batch.times)",
        new="call('UNLINK', batch.records)",
        found_by=("test_a_discarded_letter_leaves_nothing",),
    ),
    Fault(
        says="records of large batches do not expire",
        file="include/batches.lua",
        old="""\
  if expires then
    call('ZADD', batch.times, expires + SHIFT, 'x' .. key)
  end
""",
        new="",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="what was being merged is left behind",
        file="include/timelines.lua",
        old="    delete_batch(batch_at(timeline.place + MERGING))\n",
        new="",
        found_by=("test_a_half_merged_digest_can_be_completed",),
    ),
]

# What expires: include/batches.lua, maintain.lua.
EXPIRING = [
    Fault(
        says="a record of a large batch expires a moment late",
        file="include/batches.lua",
        old="'(0', now + SHIFT, 'LIMIT'",
        new="'(0', now + SHIFT - 1, 'LIMIT'",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="a frozen digest expires before its last record, if large",
        file="include/batches.lua",
        old="""\
    if call('ZCOUNT', batch.times, '(0', '+inf') < call('HLEN', batch.records) then
      return nil
    end
""",
        new="",
        found_by=("test_a_frozen_digest_expires_whole_with_its_last_record[None]",),
    ),
    Fault(
        says="a frozen digest expires though a record of it does not",
        file="include/batches.lua",
        old="math.max(last, expiry_of(record) or NEVER)",
        new="math.max(last, expiry_of(record) or -NEVER)",
        found_by=("test_a_digest_that_may_have_gone_out_stays_while_a_record_does",),
    ),
    Fault(
        says="a failed digest that lost records to expiry keeps its key",
        file="maintain.lua",
        old="  after_losing(digest, gone)\n",
        new="  after_losing(digest, gone, true)\n",
        found_by=("test_a_failed_digest_expires_each_record_at_its_moment",),
        model=True,
    ),
    Fault(
        says="the bytes that expire in a call are not bounded",
        file="include/batches.lua",
        old="while gone < #old and weight < HEAVY do",
        new="while gone < #old do",
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
]

# What is read and merged: include/pages.lua, prepare.lua, take.lua.
READING = [
    Fault(
        says="a page among equal times begins one too early",
        file="include/pages.lua",
        old=">= arrival",
        new="> arrival",
        found_by=("test_ties_are_read_in_the_order_of_arrival_over_pages",),
    ),
    Fault(
        says="a page of heavy records is not made shorter",
        file="include/pages.lua",
        old="""\
    if bytes >= room then
      return flat, false, bytes
    end
""",
        new="",
        found_by=("test_pages_of_heavy_records_are_short_and_none_is_left_out",),
    ),
    Fault(
        says="the bytes of a reply are not bounded",
        file="take.lua",
        old="  allowed = room > 0 and allowed or 0\n",
        new="",
        found_by=("test_digests_of_one_call_share_the_bytes_of_its_reply",),
    ),
    Fault(
        says="records of a small page with the same time stand the other way round",
        file="include/pages.lua",
        old="return one.arrival > other.arrival",
        new="return one.arrival < other.arrival",
        found_by=("test_records_of_one_moment_are_read_in_pages_the_latest_first[7]",),
    ),
    Fault(
        says="a small page is longer than its limit",
        file="include/pages.lua",
        old="if #flat == limit * 2 or bytes >= room then",
        new="if #flat > limit * 2 or bytes >= room then",
        found_by=("test_several_digests_share_the_page_of_one_call[180]",),
    ),
    Fault(
        says="a small page of many bytes is not made shorter",
        file="include/pages.lua",
        old="if #flat == limit * 2 or bytes >= room then",
        new="if #flat == limit * 2 then",
        found_by=("test_a_small_batch_of_many_bytes_is_read_in_pages_too",),
    ),
    Fault(
        says="each partition of a call gives as many bytes as one alone",
        file="take.lua",
        old="math.min(request.room, HEAVY)",
        new="HEAVY",
        found_by=("test_partitions_of_one_call_share_the_bytes_of_its_reply",),
    ),
    Fault(
        says="a merge ends with its first full page",
        file="prepare.lua",
        old="if moved == #keys and moved < limit then",
        new="if moved == #keys then",
        found_by=("test_large_digests_are_merged_in_pages",),
    ),
    Fault(
        says="a merge of heavy records ends with its first page",
        file="prepare.lua",
        old="if moved == #keys and moved < limit then",
        new="if moved < limit then",
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="the bytes that a call merges are not bounded",
        file="prepare.lua",
        old="while moved < #keys and bytes < HEAVY do",
        new="while moved < #keys do",
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="each digest of a call is prepared by a whole page",
        file="prepare.lua",
        old="    allowed = allowed - prepare(timeline, capacity or nil, with_newer, max_bytes or nil, allowed)\n",
        new="    prepare(timeline, capacity or nil, with_newer, max_bytes or nil, allowed)\n",
        found_by=("test_digests_of_one_call_share_what_it_merges",),
    ),
    Fault(
        says="digests of one call are read a whole page each",
        file="take.lua",
        old="  allowed = allowed - #flat / 2\n",
        new="",
        found_by=("test_several_digests_share_the_page_of_one_call[400]",),
    ),
]

# How digests and letters end: include/endings.lua and the verbs.
ENDING = [
    Fault(
        says="history grows for ever",
        file="include/endings.lua",
        old="local place = number % request.ring\n",
        new="local place = number\n",
        found_by=("test_history_keeps_a_bounded_number_of_digests",),
    ),
    Fault(
        says="the digests of a tenant are filed with those of all others",
        file="include/endings.lua",
        old="local tenant = request.tenants and request.tenants[timeline]",
        new="local tenant = nil",
        found_by=("test_the_rest_does_not_push_out_what_a_tenant_has",),
    ),
    Fault(
        says="tenants number their digests together, so that a busy one goes round the ring of another",
        file="include/endings.lua",
        old="next_of(tenant and 'ended:' .. tenant or 'ended')",
        new="next_of('ended')",
        found_by=("test_history_is_read_by_prefix_over_all_rings",),
    ),
    Fault(
        says="removals of a tenant take the places of those of all others",
        file="include/removals.lua",
        old="  return 'r' .. number % ring .. (tenant and ':' .. tenant or '')\n",
        new="  return 'r' .. number % ring\n",
        found_by=("test_a_tenant_does_not_push_out_removals_of_others",),
    ),
    Fault(
        says="a dead letter that ended stays in its timeline's order",
        file="include/endings.lua",
        old="  call('ZREM', dead, letter_member(letter))\n",
        new="",
        found_by=("test_a_discarded_letter_is_counted_deleted",),
    ),
    Fault(
        says="an attempt that lost its lease deletes the timeline that another one has opened",
        file="delete.lua",
        old="if request.token and not is_held(slot, request.token, now) then",
        new="if request.token and not slot.token then",
        found_by=("test_a_lost_lease_deletes_nothing[deliver]",),
    ),
    Fault(
        says="dead letters of one moment stand in no order",
        file="include/endings.lua",
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
        says="each call that quarantines raises the revision",
        file="quarantine.lua",
        old="after_losing(digest, gone, request.raised)",
        new="after_losing(digest, gone)",
        found_by=("test_more_than_a_call_can_quarantine_is_one_change_of_the_digest[0]",),
    ),
    Fault(
        says="a retract of the empty key takes the slot",
        file="retract.lua",
        old="if ARGV[4] == '' or not pull",
        new="if not pull",
        found_by=("test_the_empty_key_is_no_record",),
    ),
    Fault(
        says="a record that was retracted looks as if it had never come",
        file="retract.lua",
        old="note_retracted(timeline.name, ARGV[4], cmsgpack.unpack(ARGV[5]))\n",
        new="",
        found_by=("test_a_record_that_never_came_is_told_from_one_that_was_retracted",),
    ),
    Fault(
        says="all retracted keys are kept for ever",
        file="include/removals.lua",
        old="  if #found.retracted > RETRACTED_KEYS then\n",
        new="  if false then\n",
        found_by=("test_the_latest_retracted_keys_of_a_timeline_are_known",),
    ),
    Fault(
        says="removals of all timelines are kept for ever",
        file="include/removals.lua",
        old="    call('HDEL', HISTORY, 't' .. forgotten)\n",
        new="",
        found_by=("test_a_bounded_number_of_timelines_has_removals",),
    ),
    Fault(
        says="only the last call that expired records is remembered",
        file="include/removals.lua",
        old="found.first_expired, found.last_expired = found.first_expired or now, now",
        new="found.first_expired, found.last_expired = now, now",
        found_by=("test_a_record_may_have_expired",),
    ),
    Fault(
        says="what was left out of a digest is forgotten when its next attempt leaves out more",
        file="remove.lua",
        old="digest_of(timeline), 0, digest.left_out or {}",
        new="digest_of(timeline), 0, {}",
        found_by=("test_what_a_hook_left_out_is_known_over_failed_attempts",),
    ),
    Fault(
        says="retracted keys outlive the timeline that was deleted",
        file="delete.lua",
        old="forget_removals(timeline.name, request.ring)\n",
        new="",
        found_by=("test_a_deleted_timeline_was_never_seen",),
    ),
]

# Calls that come twice or late: include/calls.lua.
CALLING = [
    Fault(
        says="an add that is repeated counts twice",
        file="add.lua",
        old="if not last or last >= number or",
        new="if not last or last > number or",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="an add is not noted",
        file="add.lua",
        old="call('HSET', LEDGER, CALL, note, 'accepted'",
        new="call('HSET', LEDGER, 'accepted'",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="a call that comes too late is made",
        file="include/calls.lua",
        old="or redis.error_reply('DIGESTIF_OVERTAKEN a later call of the same caller was here before')",
        new="or nil",
        found_by=("test_a_call_that_comes_after_a_later_one_is_not_done",),
    ),
    Fault(
        says="a call is made before the one that it follows",
        file="add.lua",
        old=" or (follows and last < number - 1) then",
        new=" then",
        found_by=("test_a_call_that_follows_another_is_refused_until_that_is_done",),
    ),
    Fault(
        says="a call that follows is made though the caller is not known",
        file="include/calls.lua",
        old="return follows and redis.error_reply('DIGESTIF_GAP the call before it was not made') or nil",
        new="return nil",
        found_by=("test_a_call_that_follows_is_refused_if_the_caller_is_not_known",),
    ),
    Fault(
        says="one reply fewer is kept than calls may be under way",
        file="add.lua",
        old="for _ = 2, KEPT_REPLIES do",
        new="for _ = 3, KEPT_REPLIES do",
        found_by=("test_each_of_eight_calls_that_follow_each_other_answers_as_it_did_first",),
    ),
    Fault(
        says="answers are kept for ever",
        file="include/calls.lua",
        old="    if not is_read or noted + KEPT < clock then\n",
        new="    if not is_read then\n",
        found_by=("test_answers_to_callers_that_are_gone_are_forgotten",),
    ),
]

# Windows and stored policies: include/machine.lua, add.lua, admit.lua, set_override.lua.
CALENDAR = [
    Fault(
        says="a time of the calendar comes twice: at the end of its own delivery",
        file="include/machine.lua",
        old="if time >= at and (not last or time > last) then",
        new="if time >= at then",
        found_by=("test_closed_at_exactly_that_time_the_next_is_tomorrows[ticks]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a record puts off a digest whose time has come",
        file="include/machine.lua",
        old="return openings and not openings.hours and slot.by_delays and slot.at <= now",
        new="return false",
        found_by=("test_a_time_that_has_come_is_not_put_off",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what has changed since it was seen is opened all the same",
        file="admit.lua",
        old="elseif is_as_seen(timeline.slot, admission) and may_be_admitted",
        new="elseif may_be_admitted",
        found_by=("test_what_changed_meanwhile_is_left_alone[moved-kept]",),
    ),
    Fault(
        says="an override wins over the delays of a call",
        file="include/machine.lua",
        old="    if given % (2 * bit) < bit or not delay then\n",
        new="    if override or given % (2 * bit) < bit or not delay then\n",
        found_by=("test_the_delays_of_a_call_come_first_in_an_add",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a delay of a call outlives the ttl if the policy changed since it was checked",
        file="include/machine.lua",
        old="    return delay <= longest and delay or not override and longest or nil\n",
        new="    return delay\n",
        found_by=("test_a_policy_cleared_in_between_cuts_the_delay",),
        vectors=True,
    ),
    Fault(
        says="a cool-down of a call wins over a policy that was set since it was checked",
        file="include/machine.lua",
        old="  local is_given = plan.given and cool_down <= longest_delay(override.terms.ttl)\n",
        new="  local is_given = plan.given\n",
        found_by=("test_a_policy_set_during_a_delivery_gives_the_cool_down[completed]",),
        vectors=True,
    ),
    Fault(
        says="the capacity of the code holds on the short way",
        file="add.lua",
        old="          known, capacity, ttl = nil, read('>dd', slot, 9)\n",
        new="          known = nil\n",
        found_by=("test_the_capacity_of_an_override_holds_at_each_add",),
    ),
    Fault(
        says="what is deleted by switching a timeline off is not counted",
        file="include/off.lua",
        old="  count('deleted', gone + open)\n",
        new="  count('accepted', -gone - open)\n",
        found_by=("test_what_waits_is_deleted_and_counted[waiting]",),
    ),
]

# A fault in each transition that is left, for the arithmetic alone: include/machine.lua, include/transfer.lua.
TRANSITIONS = [
    Fault(says=says, file=f"include/{file}", old=old, new=new, found_by=(), vectors=True)
    for says, file, old, new in [
        (
            "a timeline that is made ready does not say since when",
            "machine.lua",
            "  slot.state, slot.since = 'ready', now\n",
            "  slot.state = 'ready'\n",
        ),
        (
            "what is held back loses its time by the delays",
            "machine.lua",
            "slot.state, slot.by_delays, slot.at = 'waiting', due_by_delays(slot), later",
            "slot.state, slot.by_delays, slot.at = 'waiting', nil, later",
        ),
        (
            "an empty timeline has to be admitted",
            "machine.lua",
            "return (asks or has_window) and not is_empty(slot, pending) and true or false",
            "return (asks or has_window) and true or false",
        ),
        (
            "a paused timeline is admitted",
            "machine.lua",
            "return not (slot.paused or slot.parked or",
            "return not (slot.parked or",
        ),
        (
            "hours are open at their end",
            "machine.lua",
            "if at < numbers[place + 1] then",
            "if at <= numbers[place + 1] then",
        ),
        (
            "the last opening is the first",
            "machine.lua",
            "    if is_ahead and start < before then\n",
            "    if is_ahead and start < before and not found then\n",
        ),
        (
            "another policy moves a digest that waits for its retry",
            "machine.lua",
            "if slot.state ~= 'waiting' or slot.digest or slot.passes then",
            "if slot.state ~= 'waiting' or slot.passes then",
        ),
        (
            "a timeline that cools down is idle when it is switched off",
            "machine.lua",
            "return (slot.state == 'open' or cools_down) and slot",
            "return slot.state == 'open' and slot",
        ),
        (
            "maintenance leaves a timeline ready",
            "machine.lua",
            "local function after_maintenance(slot)\n  slot.state = 'waiting'\n",
            "local function after_maintenance(slot)\n  slot.state = 'ready'\n",
        ),
        (
            "a paused timeline is opened",
            "machine.lua",
            "return slot.parked or slot.paused or",
            "return slot.parked or",
        ),
        (
            "a timeline with an unfinished digest is empty",
            "machine.lua",
            "return pending == 0 and (not slot.digest or slot.digest.records == 0)",
            "return pending == 0",
        ),
        (
            "a digest of so many records is not weighed",
            "machine.lua",
            "USUAL_PAYLOAD) > max_bytes",
            "USUAL_PAYLOAD) > max_bytes + 1",
        ),
        (
            "a new digest forgets that a large value is in it",
            "machine.lua",
            "    heavy = slot.heavy,\n",
            "",
        ),
        (
            "a digest forgets that a merge brought large values",
            "machine.lua",
            "  digest.heavy = digest.heavy or slot.heavy\n",
            "",
        ),
        (
            "large values of a dead letter are forgotten at its requeue",
            "machine.lua",
            "  slot.heavy = true\n",
            "",
        ),
        (
            "a timeline forgets that an import brought large values",
            "transfer.lua",
            "  slot.heavy = slot.heavy or heavy or nil\n",
            "",
        ),
        (
            "what is dropped for its weight is not counted",
            "machine.lua",
            "  digest.records, digest.dropped = digest.records - dropped, digest.dropped + dropped\n",
            "  digest.records = digest.records - dropped\n",
        ),
        (
            "a retry comes at the old time",
            "machine.lua",
            "slot.at, release['until'], 'retry'",
            "slot.at, slot.at, 'retry'",
        ),
        (
            "a flush keeps the due time",
            "machine.lua",
            "slot.at, now, now, 'flushed'",
            "slot.at, slot.at, now, 'flushed'",
        ),
        (
            "a replayed digest is merged with newer records",
            "machine.lua",
            "  digest.frozen, digest.weighed, digest.replayed, digest.tried = true, true, true, nil\n",
            "  digest.weighed, digest.replayed, digest.tried = true, true, nil\n",
        ),
        (
            "recipients who can't be reached count as served",
            "machine.lua",
            "    if name:byte() ~= UNREACHABLE then\n",
            "    if name then\n",
        ),
        (
            "a digest that lost nothing gets another key",
            "machine.lua",
            "  if lost > 0 and not digest.fresh and not raised then\n",
            "  if not digest.fresh and not raised then\n",
        ),
        (
            "a timeline that is not due retires",
            "machine.lua",
            "return is_due and is_empty(slot, pending) and",
            "return is_empty(slot, pending) and",
        ),
        (
            "an exported timeline forgets its state",
            "transfer.lua",
            "  slot.parked = slot.state\n",
            "",
        ),
        (
            "records that came during an export wait for nothing",
            "transfer.lua",
            "  unparked(slot)\n  awake(slot, now)\n  return slot\n",
            "  unparked(slot)\n  return slot\n",
        ),
        (
            "a timeline that stays is idle with records",
            "transfer.lua",
            "    slot.state = 'waiting'\n  end\nend\n\n-- The override that was set last",
            "  end\nend\n\n-- The override that was set last",
        ),
        (
            "a timeline that is imported is not paused",
            "transfer.lua",
            "  local paused = slot.paused or exported.paused or nil\n",
            "  local paused = slot.paused\n",
        ),
        (
            "an urgent record that is imported is not urgent",
            "transfer.lua",
            "not slot.digest and slot.deadline and slot.deadline < due then\n",
            "not slot.digest and false then\n",
        ),
        (
            "an import that is completed stays open",
            "transfer.lua",
            "local function after_import_completed(slot)\n  unparked(slot)\n",
            "local function after_import_completed(slot)\n",
        ),
    ]
]

# Records of dead letters that are pending again: requeue.lua, prepare.lua and include/machine.lua.
REQUEUEING = [
    Fault(
        says="a requeue replaces a later version that is pending",
        file="requeue.lua",
        old="if not known or arrival_of(known) < arrival_of(record) then",
        new="if true then",
        found_by=("test_a_later_version_that_is_pending_stays",),
        model=True,
    ),
    Fault(
        says="a merge replaces a later version by one that was requeued",
        file="prepare.lua",
        old="if not known or arrival_of(known) < arrival_of(record) then",
        new="if true then",
        found_by=("test_a_later_version_in_a_failed_digest_stays_when_they_merge",),
    ),
    Fault(
        says="what may have gone out is requeued",
        file="include/machine.lua",
        old="return not force and (may_have_gone_out(letter) or",
        new="return not force and (false or",
        found_by=("test_what_may_have_gone_out_is_refused_unless_forced[unknown]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what was requeued leaves at once, each letter on its own",
        file="include/machine.lua",
        old="    move(slot, now + cool_down, 'requeued',",
        new="    move(slot, now, 'requeued',",
        found_by=("test_three_dead_letters_of_a_timeline_leave_as_one_digest",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what was requeued never expires",
        file="requeue.lua",
        old="local expires = here.ttl and now + here.ttl\n",
        new="local expires = nil\n",
        found_by=("test_their_ttl_counts_from_the_requeue",),
        model=True,
    ),
    Fault(
        says="a requeue fills a timeline beyond its capacity",
        file="requeue.lua",
        old="timeline.pending - (here.capacity or math.huge)",
        new="timeline.pending - math.huge",
        found_by=("test_a_capacity_below_what_comes_back_holds_after_each_page",),
        model=True,
    ),
    Fault(
        says="the rest of a letter comes under the key of the whole",
        file="requeue.lua",
        old="letter.dropped, letter.revision = 0, letter.revision + 1",
        new="letter.dropped = 0",
        found_by=("test_what_an_interrupted_requeue_left_is_a_dead_letter_as_any[replay]",),
        model=True,
    ),
    Fault(
        says="a call moves more records than it may",
        file="requeue.lua",
        old="oldest_keys(source, request.limit)",
        new="oldest_keys(source, 1e6)",
        found_by=("test_an_interrupted_requeue_can_be_made_again",),
        model=True,
    ),
]

# While the store is being moved.
MOVING = [
    Fault(
        says="a store that is being moved delivers the first record of an idle timeline",
        file="include/machine.lua",
        old="pending, slot.paused or moving)",
        new="pending, slot.paused)",
        found_by=("test_an_idle_timeline_waits_when_a_record_arrives[1]",),
        vectors=True,
    ),
    Fault(
        says="a store that is being moved lets a timeline be opened",
        file="open.lua",
        old="-- include: moving.lua\n",
        new="",
        found_by=("test_nothing_is_opened_flushed_replayed_or_requeued",),
    ),
    Fault(
        says="a store that is being moved admits what was a candidate before",
        file="admit.lua",
        old="ipairs(moving and {} or request.admissions)",
        new="ipairs(request.admissions)",
        found_by=("test_what_was_a_candidate_before_is_not_admitted[None-token]",),
    ),
    Fault(
        says="records that follow do not put their digest off",
        file="include/transfer.lua",
        old="    after_push(slot, exported.push)\n",
        new="",
        found_by=("test_as_many_digests_go_out_as_without_a_move[False]",),
    ),
]

# What comes along with a timeline, and changes what the target may hold: import_pages.lua.
ARRIVING = [
    Fault(
        says="off that arrives leaves what is pending",
        file="import_pages.lua",
        old="    empty(timeline)\n    save_timeline(timeline)\n",
        new="    timeline.slot = after_switched_off(timeline.slot)\n    save_timeline(timeline)\n",
        found_by=("test_off_that_arrives_empties_the_timeline[False-ready]",),
    ),
    Fault(
        says="a digest that arrives is tried again though its timeline is off",
        file="import_pages.lua",
        old="  if is_off(slot) then -- the choice",
        new="  if false then -- the choice",
        found_by=("test_a_digest_that_brings_off_along_is_deleted_with_what_waits[1]",),
    ),
    Fault(
        says="what was chosen during an export is lost",
        file="include/transfer.lua",
        old="    if since_of(slot.override) == since_of(exported.override) then\n",
        new="    if true then\n",
        found_by=("test_what_is_chosen_while_a_timeline_is_copied_follows[False-off]",),
        vectors=True,
    ),
    Fault(
        says="a policy that arrives does not move what waits",
        file="import_pages.lua",
        old="  if was_waiting and since_of",
        new="  if false and since_of",
        found_by=("test_a_policy_that_arrives_moves_what_waits[0-minimum=1m-60]",),
    ),
]

# What something else deleted or damaged: include/losses.lua, quarantine_timeline.lua.
LOSING = [
    Fault(
        says="a repair forgets what people chose for a timeline that was idle with records",
        file="quarantine_timeline.lua",
        old="if request.keeps then",
        new="if false then",
        found_by=("test_a_timeline_that_is_idle_with_records_is_named_and_repaired",),
    ),
    Fault(
        says="a record that is gone from a digest is counted as delivered",
        file="take.lua",
        old="  if found < held or found ~= digest.records then\n",
        new="  if found < held then\n",
        found_by=("test_a_replay_of_such_a_letter_delivers_the_others",),
    ),
    Fault(
        says="a digest that lost a record comes again under the same key",
        file="include/losses.lua",
        old="    after_losing(digest, gone)\n",
        new="    after_losing(digest, gone, true)\n",
        found_by=("test_what_vanished_from_a_digest_that_comes_again_is_lost",),
    ),
    Fault(
        says="pending records that are gone stay in the ledger",
        file="include/claims.lua",
        old="    if gone > 0 then\n",
        new="    if false then\n",
        found_by=("test_a_record_that_is_gone_with_its_key_is_lost",),
    ),
    Fault(
        says="a dead letter that lost a record leaves it in the ledger",
        file="requeue.lua",
        old="count('dead', -lost)\n",
        new="",
        found_by=("test_a_dead_letter_that_lost_a_record_gives_back_the_others",),
    ),
    Fault(
        says="a dead letter without a value is replayed",
        file="include/endings.lua",
        old="      return not timestamp_place(record)\n",
        new="      return false\n",
        found_by=("test_a_dead_letter_without_a_value_can_only_be_discarded",),
    ),
    Fault(
        says="a value that vanished from a large digest leaves no letter",
        file="quarantine.lua",
        old="    record = '' -- its value is gone, and only the order had it\n",
        new="",
        found_by=("test_a_value_that_vanished_from_a_large_digest_is_a_dead_letter_with_its_key",),
    ),
]

# Clocks that are set back: end_leases.lua and its rules.
CLOCKS = [
    Fault(
        says="a lease that was renewed since it was seen is ended",
        file="include/machine.lua",
        old=" and not slot.parked and slot['until'] == seen\n",
        new=" and not slot.parked\n",
        found_by=("test_a_lease_ends_early_only_if_its_end_is_the_one_that_was_seen",),
    ),
    Fault(
        says="what a clock that was set back left a day ahead is planned a day ahead again",
        file="include/machine.lua",
        old="slot.last and math.min(slot.last, now), slot.first and math.min(slot.first, now)\n",
        new="slot.last, slot.first\n",
        found_by=("test_after_a_clock_was_set_back_what_waits_is_planned_by_now",),
        vectors=True,
    ),
    Fault(
        says="every lease counts as one that is too far ahead",
        file="leases_beyond.lua",
        old="string.format('(%.0f', request.time)",
        new="'-inf'",
        found_by=("test_leases_are_found_that_end_after_a_time_and_paused_ones_are_not",),
    ),
]

FAULTS = [
    *CLOCKS,
    *MOVING,
    *ARRIVING,
    *TRANSITIONS,
    *PLACING,
    *LEASING,
    *SUSPECTS,
    *ORDERS,
    *ADDING,
    *BATCHES,
    *EXPIRING,
    *READING,
    *ENDING,
    *CALLING,
    *CALENDAR,
    *REQUEUEING,
    *LOSING,
]
