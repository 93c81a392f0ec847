"""Faults in the scripts that could easily be made, and the sentences that must find them.

A fault gives one function of a script, or one value, another meaning: an expression of Lua in which `sound` is the old
meaning. `using` and `keeping` write the usual ones. A decision in the middle of a script needs a name first:
`local is_stale = …`. To see whether a new fault is found: `./dev test tests/nets -k "words and that and it and says"`.
"""

from tests.nets.patches import ScriptFault as Fault
from tests.nets.patches import keeping, using

# Where a timeline is placed: include/machine.lua.
PLACING = [
    Fault(
        says="a stream of records puts a digest off for ever",
        file="include/machine.lua",
        name="capped",
        becomes="function(at, rule) return at, rule end",
        found_by=("test_increments_end_at_the_maximum_after_the_last_delivery",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a timeline is full with one record more than max_records",
        file="include/machine.lua",
        name="move",
        becomes="""
            function(slot, at, rule, now, max_records, ...)
              sound(slot, at, rule, now, max_records and max_records + 1, ...)
            end
        """,
        found_by=("test_enough_records_make_a_timeline_due_at_once",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a record puts off the retry of a failed digest",
        file="include/machine.lua",
        name="after_add",
        becomes=using("slot.digest", "nil", given="slot, ..."),
        found_by=("test_a_retry_is_not_put_off_nor_pulled_forward",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an urgent record is forgotten at the completion",
        file="include/machine.lua",
        name="after_completion",
        becomes="function(slot, ...) slot.deadline = nil return sound(slot, ...) end",
        found_by=("test_it_is_urgent_after_a_digest_that_was_open_when_it_came",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="an empty digest counts as a delivery",
        file="include/machine.lua",
        name="after_completion",
        becomes="""
            function(slot, ...)
              local iteration, after = slot.iteration, sound(slot, ...)
              slot.iteration = iteration + 1
              return after
            end
        """,
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
        name="is_held",
        becomes="function(slot, token, now) return is_live(slot, now) end",
        found_by=("test_a_stale_token_changes_nothing[taken over]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a lease lives a moment longer than it says",
        file="include/machine.lua",
        name="is_live",
        becomes="function(slot, now) return sound(slot, now - 1) end",
        found_by=("test_an_open_timeline_is_busy_until_its_lease_lapses",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that lapsed is merged with newer records",
        file="include/machine.lua",
        name="after_lapse",
        becomes=using("kept", "function(digest) return usual(digest) end"),
        found_by=("test_a_lost_lease_gives_exactly_the_same_digest_again",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="lapses are not counted",
        file="include/machine.lua",
        name="after_lapse",
        becomes="""
            function(slot)
              if slot.digest then
                slot.digest.lapses = slot.digest.lapses - 1
              end
              sound(slot)
            end
        """,
        found_by=("test_lapsed_leases_are_ended",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a merged digest comes under the key that it had before",
        file="include/machine.lua",
        name="after_decision",
        becomes=keeping("slot.digest.revision"),
        found_by=("test_the_revision_rises_with_what_joined_after_a_reported_failure",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that nothing joined gets another key",
        file="include/machine.lua",
        name="after_decision",
        becomes="""
            function(slot, merge, pending)
              local joins = sound(slot, merge, pending)
              if merge and not joins then
                slot.digest.revision = slot.digest.revision + 1
              end
              return joins
            end
        """,
        found_by=("test_a_digest_that_nothing_joined_keeps_its_key[True]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that was put off counts as one that no attempt has read",
        file="include/machine.lua",
        name="after_failure",
        becomes="function(slot, release) release.read = nil sound(slot, release) end",
        found_by=("test_under_a_lower_capacity_a_digest_that_was_read_stays_whole[False]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="records of a digest that was given back do not expire",
        file="include/machine.lua",
        name="cut",
        becomes="function(slot, ...) sound(slot, ...) slot.digest.expires = nil end",
        found_by=("test_a_failed_digest_expires_record_by_record",),
        model=True,
    ),
    Fault(
        says="records that were merged into a digest do not expire",
        file="include/machine.lua",
        name="after_decision",
        becomes=keeping("slot.digest.expires"),
        found_by=("test_what_joined_a_failed_digest_expires_by_its_own_time",),
    ),
    Fault(
        says="a merge keeps one record more than the capacity",
        file="include/machine.lua",
        name="excess",
        becomes="function(...) return math.max(sound(...) - 1, 0) end",
        found_by=("test_a_failed_digest_and_newer_records_share_the_capacity",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a digest that was read is trimmed to a lower capacity",
        file="include/machine.lua",
        name="is_unread",
        becomes="function(digest) return not digest.frozen end",
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
        name="suspect",
        becomes="{}",
        found_by=("test_a_claim_leaves_lapsed_leases_and_tells_when_the_first_of_them_lapsed",),
    ),
    Fault(
        says="a lease is suspected a moment before it lapses",
        file="claimable.lua",
        name="earliest",
        becomes="function(order, last, many) return sound(order, order == LEASES and last + 1 or last, many) end",
        found_by=("test_a_claim_leaves_lapsed_leases_and_tells_when_the_first_of_them_lapsed",),
    ),
    Fault(
        says="claims look through what they leave to others",
        file="claimable.lua",
        name="collect",
        becomes="""
            function(order, last)
              sound(order, last)
              if order == WAITING then
                sound(LEASES, now)
              end
            end
        """,
        found_by=("test_a_claim_that_finds_nothing_tells_of_suspects_in_its_one_round_trip",),
    ),
    Fault(
        says="a digest that lapsed in a group is tried in as large a group again",
        file="include/machine.lua",
        name="largest_group",
        becomes="function(lapsed) return sound({ group = 2 * tried_in(lapsed), digest = lapsed.digest }) end",
        found_by=("test_a_group_that_lapsed_is_tried_in_halves",),
        vectors=True,
    ),
    Fault(
        says="suspects join a group that is too large for them",
        file="include/machine.lua",
        name="may_join",
        becomes="function() return true end",
        found_by=("test_one_that_may_not_join_a_group_is_passed_over",),
        vectors=True,
    ),
    Fault(
        says="the first suspect does not decide how large its group is",
        file="include/machine.lua",
        name="group_size",
        becomes="function(_, size) return size end",
        found_by=("test_one_that_lapsed_by_itself_is_tried_by_itself",),
        vectors=True,
    ),
    Fault(
        says="what another suspect decided is decided again",
        file="claim_suspects.lua",
        name="decide_size",
        becomes="function(suspect) request.is_decided = false sound(suspect) end",
        found_by=("test_one_that_may_not_join_a_group_is_passed_over",),
    ),
    Fault(
        says="a lease that an earlier release noted as alone proves nothing",
        file="include/machine.lua",
        name="tried_in",
        becomes="function(slot) return slot.group or 0 end",
        found_by=("test_a_lease_that_an_earlier_release_noted_as_alone_is_a_group_of_one",),
        vectors=True,
    ),
    Fault(
        says="a suspect whose lease is alive again is taken over",
        file="include/machine.lua",
        name="is_suspect",
        becomes="function(slot) return slot.state == 'open' end",
        found_by=("test_a_suspect_that_changed_since_it_was_found_is_left_alone[claimed]",),
        vectors=True,
    ),
    Fault(
        says="a suspect that was paused meanwhile is opened",
        file="claim_suspects.lua",
        name="is_wanted",
        becomes="function(slot) return is_suspect(slot, now) end",
        found_by=("test_a_suspect_that_changed_since_it_was_found_is_left_alone[paused]",),
    ),
    Fault(
        says="several are noted to be alone",
        file="include/claims.lua",
        name="claim",
        becomes="function(timeline, request, group) sound(timeline, request, math.min(group or 0, 1)) end",
        found_by=("test_of_several_the_size_that_was_asked_for_is_noted",),
    ),
    Fault(
        says="a lapse beside others counts as one that was alone",
        file="include/machine.lua",
        name="after_lapse",
        becomes="""
            function(slot)
              local lapses_alone = slot.digest and slot.digest.lapses_alone or 0
              sound(slot)
              if slot.digest then
                slot.digest.lapses_alone = lapses_alone + 1
              end
            end
        """,
        found_by=("test_suspects_are_tried_in_groups_as_large_as_the_worker_asks",),
        vectors=True,
    ),
    Fault(
        says="it is not noted that a digest is alone",
        file="include/machine.lua",
        name="after_open",
        becomes="function(slot, ...) local fresh = sound(slot, ...) slot.group = nil return fresh end",
        found_by=("test_a_second_lapse_of_a_digest_that_was_alone_is_known",),
        vectors=True,
    ),
    Fault(
        says="a digest that never lapsed is noted to be alone",
        file="include/machine.lua",
        name="after_open",
        becomes="""
            function(slot, now, token, lease, fresh_id, pending, group)
              local fresh = sound(slot, now, token, lease, fresh_id, pending)
              slot.group = group and group > 0 and group or nil
              return fresh
            end
        """,
        found_by=("test_opening_notes_that_it_is_alone_once_its_digest_has_lapsed",),
        vectors=True,
    ),
    Fault(
        says="a digest that failed is still alone",
        file="include/machine.lua",
        name="after_failure",
        becomes=keeping("slot.group"),
        found_by=("test_however_a_lease_ends_it_is_not_alone_any_more[failed]",),
        vectors=True,
    ),
    Fault(
        says="a timeline whose digest ended is still alone",
        file="include/machine.lua",
        name="after_completion",
        becomes=keeping("slot.group"),
        found_by=("test_however_a_lease_ends_it_is_not_alone_any_more[completed]",),
        vectors=True,
    ),
    Fault(
        says="what is known of a digest that was alone stays behind in a move",
        file="include/transfer.lua",
        name="after_import_of_digest",
        becomes="function(slot, ...) sound(slot, ...) slot.digest.lapses_alone = nil end",
        found_by=("test_lapses_alone_move_along[server]",),
        vectors=True,
    ),
    Fault(
        says="the upkeep of workers makes ordinary timelines of suspects",
        file="maintain.lua",
        name="lapse",
        becomes="function(timeline) request.deadline = request.deadline or now sound(timeline) end",
        found_by=("test_a_timeline_that_was_resumed_meanwhile_is_left_to_those_who_try_suspects",),
    ),
]

# Where a timeline stands in the orders of its partition: include/timelines.lua, due.lua.
ORDERS = [
    Fault(
        says="paused timelines stand in the way of the others",
        file="include/timelines.lua",
        name="marks",
        becomes="""
            function(slot)
              local found = sound(slot)
              found.waiting = slot.state == 'waiting' and slot.at or nil
              return found
            end
        """,
        found_by=("test_paused_timelines_do_not_hide_the_others[due]",),
    ),
    Fault(
        says="paused ready timelines stand in the way of the others",
        file="include/timelines.lua",
        name="marks",
        becomes="""
            function(slot)
              local found = sound(slot)
              found.ready = slot.state == 'ready' and slot.at or nil
              return found
            end
        """,
        found_by=("test_paused_timelines_do_not_hide_the_others[ready]",),
    ),
    Fault(
        says="a call of schedule gives a timeline twice",
        file="include/timelines.lua",
        name="save_timeline",
        becomes="function(timeline) timeline.state = timeline.slot.state sound(timeline) end",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="a timeline that left a state stays in its order",
        file="include/timelines.lua",
        name="reorder",
        becomes="function(order, name, before, after) sound(order, name, after and before, after) end",
        found_by=("test_a_timeline_whose_records_were_all_taken_back_ends_by_itself",),
    ),
    Fault(
        says="the lease of a paused timeline is not found when it lapses",
        file="include/timelines.lua",
        name="marks",
        becomes="""
            function(slot)
              local found = sound(slot)
              found.paused = slot.paused and UNLEASED or nil
              return found
            end
        """,
        found_by=("test_a_lapsed_lease_is_ended_though_the_timeline_is_paused",),
        model=True,
    ),
    Fault(
        says="a page of schedule begins where the call began",
        file="due.lua",
        name="start",
        becomes="0",
        found_by=("test_what_is_due_again_meanwhile_is_not_given_again",),
    ),
    Fault(
        says="names are compared by the language of the server",
        file="include/places.lua",
        name="is_after",
        becomes="function(one, other) return one > other end",
        found_by=("test_schedule_misses_nothing_whatever_the_language_of_the_server",),
    ),
    Fault(
        says="a page of a state's timelines begins at the first",
        file="order.lua",
        name="start",
        becomes="0",
        found_by=("test_timelines_that_are_due_at_the_same_time_come_once_each",),
    ),
    Fault(
        says="removed documents count as bytes",
        file="include/documents.lua",
        name="remove_document",
        becomes="""
            function(key, stored, collection)
              sound(key, stored, collection)
              for _, total in pairs(totals) do
                total.bytes = total.bytes + string.len(body_of(stored))
              end
            end
        """,
        found_by=("test_the_oldest_are_removed_beyond_the_bytes",),
    ),
    Fault(
        says="a document replaces any other that is there, whatever it was compared with",
        file="keep.lua",
        name="may_be_kept",
        becomes="function() return request.compares and is_there or sound() end",
        found_by=("test_a_document_is_replaced_by_comparison_only_where_its_body_is_there",),
    ),
    Fault(
        says="a document is forgotten whatever it was compared with",
        file="forget.lua",
        name="is_meant",
        becomes="stored",
        found_by=("test_a_document_is_forgotten_by_comparison_only_where_its_body_is_there",),
    ),
    Fault(
        says="documents of named rings that are too old stay behind those of the ring without a name",
        file="keep.lua",
        name="RINGS",
        becomes="{ sound[1] }",
        found_by=("test_documents_that_are_too_old_leave_every_ring",),
    ),
    Fault(
        says="ids of digests count the others of their claim",
        file="include/claims.lua",
        name="derived_id",
        becomes="function(token) return sound(token, tostring(#leases)) end",
        found_by=("test_the_id_of_a_digest_does_not_depend_on_others_in_its_claim[claimed]",),
    ),
    Fault(
        says="documents of all rings count as entries of each",
        file="keep.lua",
        name="entries_of_ring",
        becomes="function() return call('ZCARD', ORDER) end",
        found_by=("test_documents_of_a_ring_push_out_only_each_other",),
    ),
    Fault(
        says="a record that joins the short way does not know when it is due",
        file="add.lua",
        name="due_of",
        becomes="function() return nil end",
        found_by=("test_a_record_that_joins_a_ready_timeline_is_due_with_it",),
    ),
    Fault(
        says="listeners are not woken",
        file="include/calls.lua",
        name="finish",
        becomes="function() woken = false sound() end",
        found_by=("test_who_waits_is_woken_when_a_timeline_can_be_taken[added]",),
    ),
]

# What an add does: add.lua, with its short way.
ADDING = [
    Fault(
        says="the short way keeps one record more than the capacity",
        file="add.lua",
        name="fits",
        becomes="sound or size == capacity",
        found_by=("test_a_dropped_key_that_comes_again_is_a_new_record",),
        model=True,
    ),
    Fault(
        says="the short way is taken by the first record",
        file="include/timelines.lua",
        name="with_head",
        becomes="function(slot, pending) return sound(slot, math.max(pending, 1)) end",
        found_by=("test_the_maximum_counts_from_the_first_that_came_during_a_digest",),
        model=True,
    ),
    Fault(
        says="the short way makes a batch longer than small ones are",
        file="add.lua",
        name="stays_small",
        becomes="fits and #rest <= LIGHT",
        found_by=("test_records_join_an_open_timeline_until_the_batch_is_large",),
    ),
    Fault(
        says="a burst is put in beyond the capacity",
        file="add.lua",
        name="room",
        becomes="SMALL - size",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[beyond a capacity]",),
    ),
    Fault(
        says="a burst is put in beyond what a small batch may have",
        file="add.lua",
        name="room",
        becomes="capacity - size",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[until it is large]",),
    ),
    Fault(
        says="a burst puts a heavy record into a small batch",
        file="add.lua",
        name="goes_along",
        becomes="true",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[heavy in between]",),
    ),
    Fault(
        says="a burst is put in, and its records again",
        file="add.lua",
        name="next_record",
        becomes="record + 1",
        found_by=("test_a_burst_is_put_in_as_if_its_records_came_one_by_one[small]",),
    ),
    Fault(
        says="the short way puts a heavy record into a small batch",
        file="add.lua",
        name="stays_small",
        becomes="fits and size < SMALL",
        found_by=("test_a_batch_becomes_large_with_a_heavy_record[5]",),
    ),
    Fault(
        says="the short way does not note that a large value arrived",
        file="add.lua",
        name="is_usual",
        becomes="true",
        found_by=("test_large_values_are_weighed_beside_small_ones[sync]",),
    ),
    Fault(
        says="a timeline does not notice that a large value arrived",
        file="add.lua",
        name="put_pending",
        becomes=keeping("timeline.slot.heavy", given="timeline, ..."),
        found_by=("test_a_digest_holds_the_newest_of_the_largest_values[sync]",),
    ),
    Fault(
        says="the short way does not note that a record expires earlier",
        file="add.lua",
        name="fits",
        becomes="size < capacity",
        found_by=("test_a_shorter_ttl_than_those_before_is_noticed",),
    ),
    Fault(
        says="the short way is taken though a deadline may go",
        file="include/timelines.lua",
        name="with_head",
        becomes="""
            function(slot, pending)
              local deadline, full = slot.deadline, sound(slot, pending)
              slot.deadline = nil
              local kind = sound(slot, pending):sub(1, 1)
              slot.deadline = deadline
              return slot.override and full or kind .. full:sub(2)
            end
        """,
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="the short way is taken beside the long one",
        file="add.lua",
        name="is_ordinary",
        becomes="within ~= within",
        found_by=("test_capacity_holds_within_one_call_whatever_its_records_are",),
    ),
    Fault(
        says="the short way into a large batch forgets its order",
        file="add.lua",
        name="noted_age",
        becomes="call('ZREM', keys[ages], write('>I8', arrival + 1) .. key)",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="the short way into a large batch leaves the older version in its order",
        file="add.lua",
        name="is_new",
        becomes="is_usual",
        found_by=("test_records_join_a_large_batch_while_its_timeline_is_open",),
    ),
    Fault(
        says="a record that needs orders is put in without them",
        file="add.lua",
        name="needs_orders",
        becomes="""
            function(timeline, ...)
              if sound(timeline, ...) then
                timeline.batch.ages, timeline.batch.times = timeline.key .. 'a', timeline.key .. 'x'
              end
              return false
            end
        """,
        found_by=("test_records_that_need_orders_follow_in_their_order",),
    ),
    Fault(
        says="a record overtakes one of its timeline that was left out",
        file="add.lua",
        name="needs_orders",
        becomes="function(timeline, ...) timeline.leaves_out = nil return sound(timeline, ...) end",
        found_by=("test_a_record_behind_one_that_was_left_out_does_not_overtake_it",),
    ),
    Fault(
        says="orders are taken for those of another timeline",
        file="add.lua",
        name="timeline_of",
        becomes="""
            function(number)
              local timeline, last = sound(number), ORDERS + 2 * ordered
              if timeline and number < ordered then
                timeline.batch.ages, timeline.batch.times = KEYS[last], KEYS[last + 1]
              end
              return timeline
            end
        """,
        found_by=("test_large_timelines_of_one_call_have_orders_of_their_own",),
    ),
    Fault(
        says="what the short way replaces is not in the ledger",
        file="add.lua",
        name="finish_call",
        becomes="function() sound(0) end",
        found_by=("test_the_same_key_again_replaces_the_record",),
        model=True,
    ),
    Fault(
        says="an expiry is forgotten by a later record",
        file="add.lua",
        name="add",
        becomes="""
            function(arrival, number, ...)
              local timeline = loaded[number] or timeline_of(number)
              if timeline then
                timeline.slot.expires = nil
              end
              return sound(arrival, number, ...)
            end
        """,
        found_by=("test_pending_records_expire_by_the_ttl_of_their_add[waiting]",),
        model=True,
    ),
    Fault(
        says="an urgent record joins as an ordinary one",
        file="add.lua",
        name="is_ordinary",
        becomes="not loaded[timeline]",
        found_by=("test_it_is_urgent_behind_an_ordinary_record_too",),
        model=True,
    ),
    Fault(
        says="a policy of another record is applied on the short way",
        file="add.lua",
        name="is_known",
        becomes="known and not is_own",
        found_by=("test_each_record_of_a_call_has_its_own_policy",),
    ),
]

# Records and their orders: include/batches.lua, include/timelines.lua.
BATCHES = [
    Fault(
        says="records with the same time stand in no order",
        file="include/batches.lua",
        name="age_member",
        becomes="function(key, record) return string.reverse(struct.pack('>I8', arrival_of(record))) .. key end",
        found_by=("test_two_thousand_records_of_one_moment_are_read_in_the_order_of_arrival",),
    ),
    Fault(
        says="a replaced record stays in the order of its batch",
        file="include/batches.lua",
        name="put",
        becomes="""
            function(batch, key, ...)
              local old = batch.large and call('HGET', batch.records, key)
              local replaced = sound(batch, key, ...)
              if old then
                call('ZADD', batch.ages, timestamp_of(old), age_member(key, old))
              end
              return replaced
            end
        """,
        found_by=("test_a_new_version_stands_where_its_own_time_is",),
    ),
    Fault(
        says="a record that is taken away stays in the order of its batch",
        file="include/batches.lua",
        name="pull",
        becomes=using("remove_from_orders", "function() end"),
        found_by=("test_retracted_records_are_gone_from_every_order",),
    ),
    Fault(
        says="the deadline of a record that is gone stays",
        file="include/batches.lua",
        name="remove_from_orders",
        becomes="""
            function(batch, key, record)
              local deadline = call('ZSCORE', batch.times, 'u' .. key)
              local found = sound(batch, key, record)
              if deadline then
                call('ZADD', batch.times, deadline, 'u' .. key)
              end
              return found
            end
        """,
        found_by=("test_a_deadline_is_gone_with_its_record",),
    ),
    Fault(
        says="batches are never large",
        file="include/batches.lua",
        name="put",
        becomes=using("enlarge", "function() end"),
        found_by=("test_a_batch_becomes_large_with_its_257th_record",),
    ),
    Fault(
        says="of many that are too full some lose a newer record",
        file="include/batches.lua",
        name="oldest_of_small",
        becomes=using("arrival_of", "function(record) return -usual(record) end"),
        found_by=("test_many_full_timelines_drop_their_oldest_in_one_call",),
    ),
    Fault(
        says="the orders of a large batch are left behind",
        file="include/batches.lua",
        name="delete_batch",
        becomes="function(batch) call('UNLINK', batch.records) end",
        found_by=("test_a_discarded_letter_leaves_nothing",),
    ),
    Fault(
        says="records of large batches do not expire",
        file="include/batches.lua",
        name="add_to_orders",
        becomes="function(batch, key, record) sound(batch, key, record) call('ZREM', batch.times, 'x' .. key) end",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="what was being merged is left behind",
        file="include/timelines.lua",
        name="delete_digest",
        becomes="function(timeline) timeline.slot.digest.merging = nil sound(timeline) end",
        found_by=("test_a_half_merged_digest_can_be_completed",),
    ),
]

# What expires: include/batches.lua, maintain.lua.
EXPIRING = [
    Fault(
        says="a record of a large batch expires a moment late",
        file="include/batches.lua",
        name="expire",
        becomes="function(batch, now, limit) return sound(batch, batch.large and now - 1 or now, limit) end",
        found_by=("test_pending_records_expire_each_at_its_moment",),
    ),
    Fault(
        says="a frozen digest expires before its last record, if large",
        file="include/batches.lua",
        name="latest_expiry",
        becomes="""
            function(batch)
              local last = batch.large and call('ZRANGE', batch.times, -1, -1, 'WITHSCORES')[2]
              return last and last - SHIFT or sound(batch)
            end
        """,
        found_by=("test_a_frozen_digest_expires_whole_with_its_last_record[None]",),
    ),
    Fault(
        says="a frozen digest expires though a record of it does not",
        file="include/batches.lua",
        name="latest_expiry",
        becomes=using("expiry_of", "function(record) return usual(record) or -NEVER end"),
        found_by=("test_a_digest_that_may_have_gone_out_stays_while_a_record_does",),
    ),
    Fault(
        says="a failed digest that lost records to expiry keeps its key",
        file="maintain.lua",
        name="expire_one_by_one",
        becomes=keeping("timeline.slot.digest.revision", given="timeline, ..."),
        found_by=("test_a_failed_digest_expires_each_record_at_its_moment",),
        model=True,
    ),
    Fault(
        says="the bytes that expire in a call are not bounded",
        file="include/batches.lua",
        name="expire",
        becomes=using("HEAVY", "math.huge"),
        found_by=("test_heavy_records_expire_a_few_at_a_time",),
    ),
    Fault(
        says="maintenance looks at a frozen digest again and again",
        file="maintain.lua",
        name="expire_frozen",
        becomes=keeping("timeline.slot.digest.expires", given="timeline, ..."),
        found_by=("test_what_can_not_expire_yet_is_not_in_the_way",),
    ),
    Fault(
        says="what is being merged does not expire",
        file="maintain.lua",
        name="expire_digest",
        becomes=using("merging_of", "digest_of"),
        found_by=("test_a_half_merged_digest_that_was_given_back_expires_whole",),
    ),
    Fault(
        says="an open digest expires",
        file="maintain.lua",
        name="expire_digest",
        becomes=using("timeline.slot.state", "'ready'", given="timeline, ..."),
        found_by=("test_an_open_digest_stays_when_what_is_pending_expires",),
    ),
]

# What is read and merged: include/pages.lua, prepare.lua, take.lua.
READING = [
    Fault(
        says="a page among equal times begins one too early",
        file="include/pages.lua",
        name="rank_after",
        becomes="function(batch, after) return sound(batch, { after[1], after[2] + 1 }) end",
        found_by=("test_ties_are_read_in_the_order_of_arrival_over_pages",),
    ),
    Fault(
        says="a page of heavy records is not made shorter",
        file="include/pages.lua",
        name="page_of_large",
        becomes="function(batch, after, limit) return sound(batch, after, limit, math.huge) end",
        found_by=("test_pages_of_heavy_records_are_short_and_none_is_left_out",),
    ),
    Fault(
        says="the bytes of a reply are not bounded",
        file="take.lua",
        name="take",
        becomes="""
            function(...)
              local before, reply = allowed, sound(...)
              allowed = reply and reply[5] and before - #reply[5] / 2 or before
              return reply
            end
        """,
        found_by=("test_digests_of_one_call_share_the_bytes_of_its_reply",),
    ),
    Fault(
        says="records of a small page with the same time stand the other way round",
        file="include/pages.lua",
        name="is_newer",
        becomes="""
            function(one, other)
              local is_tie = one.timestamp == other.timestamp
              return is_tie and one.arrival < other.arrival or one.timestamp > other.timestamp
            end
        """,
        found_by=("test_records_of_one_moment_are_read_in_pages_the_latest_first[7]",),
    ),
    Fault(
        says="a small page is longer than its limit",
        file="include/pages.lua",
        name="page_of_small",
        becomes="function(batch, after, limit, room) return sound(batch, after, limit + 1, room) end",
        found_by=("test_several_digests_share_the_page_of_one_call[180]",),
    ),
    Fault(
        says="a small page of many bytes is not made shorter",
        file="include/pages.lua",
        name="page_of_small",
        becomes="function(batch, after, limit) return sound(batch, after, limit, math.huge) end",
        found_by=("test_a_small_batch_of_many_bytes_is_read_in_pages_too",),
    ),
    Fault(
        says="each partition of a call gives as many bytes as one alone",
        file="take.lua",
        name="room",
        becomes="HEAVY",
        found_by=("test_partitions_of_one_call_share_the_bytes_of_its_reply",),
    ),
    Fault(
        says="a merge ends with its first full page",
        file="prepare.lua",
        name="merge",
        becomes="""
            function(timeline, limit)
              local moved = sound(timeline, limit)
              if moved > 0 and moved == limit then
                timeline.slot.digest.merging = nil
              end
              return moved
            end
        """,
        found_by=("test_large_digests_are_merged_in_pages",),
    ),
    Fault(
        says="a merge of heavy records ends with its first page",
        file="prepare.lua",
        name="merge",
        becomes="""
            function(timeline, limit)
              local moved = sound(timeline, limit)
              if moved < limit then
                timeline.slot.digest.merging = nil
              end
              return moved
            end
        """,
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="the bytes that a call merges are not bounded",
        file="prepare.lua",
        name="merge",
        becomes=using("HEAVY", "math.huge"),
        found_by=("test_heavy_records_are_merged_a_few_at_a_time",),
    ),
    Fault(
        says="each digest of a call is prepared by a whole page",
        file="prepare.lua",
        name="prepare",
        becomes="function(...) sound(...) return 0 end",
        found_by=("test_digests_of_one_call_share_what_it_merges",),
    ),
    Fault(
        says="digests of one call are read a whole page each",
        file="take.lua",
        name="take",
        becomes="""
            function(...)
              local before, reply = allowed, sound(...)
              allowed = room > 0 and before or 0
              return reply
            end
        """,
        found_by=("test_several_digests_share_the_page_of_one_call[400]",),
    ),
]

# How digests and letters end: include/endings.lua and the verbs.
ENDING = [
    Fault(
        says="history grows for ever",
        file="include/endings.lua",
        name="add_to_history",
        becomes=using("request.ring", "2 ^ 53", given="timeline, digest, outcome, request, ..."),
        found_by=("test_history_keeps_a_bounded_number_of_digests",),
    ),
    Fault(
        says="the digests of a tenant are filed with those of all others",
        file="include/endings.lua",
        name="add_to_history",
        becomes=using("request.tenants", "nil", given="timeline, digest, outcome, request, ..."),
        found_by=("test_the_rest_does_not_push_out_what_a_tenant_has",),
    ),
    Fault(
        says="tenants number their digests together, so that a busy one goes round the ring of another",
        file="include/calls.lua",
        name="next_of",
        becomes="function(series) return sound((string.gsub(series, '^ended:.*', 'ended'))) end",
        found_by=("test_history_is_read_by_prefix_over_all_rings",),
    ),
    Fault(
        says="removals of a tenant take the places of those of all others",
        file="include/removals.lua",
        name="place_of",
        becomes="function(number, ring) return sound(number, ring) end",
        found_by=("test_a_tenant_does_not_push_out_removals_of_others",),
    ),
    Fault(
        says="a dead letter that ended stays in its timeline's order",
        file="include/endings.lua",
        name="unlist_letter",
        becomes="function(letter) sound(letter, LETTERS) end",
        found_by=("test_a_discarded_letter_is_counted_deleted",),
    ),
    Fault(
        says="an attempt that lost its lease deletes the timeline that another one has opened",
        file="delete.lua",
        name="is_stale",
        becomes="request.token and not slot.token",
        found_by=("test_a_lost_lease_deletes_nothing[deliver]",),
    ),
    Fault(
        says="dead letters of one moment stand in no order",
        file="include/endings.lua",
        name="letter_member",
        becomes="function(letter) return sound({ number = 0, id = letter.id }) end",
        found_by=("test_letters_of_one_moment_come_in_the_order_of_their_burial[1]",),
    ),
    Fault(
        says="a half merged digest is buried without what is being merged",
        file="bury.lua",
        name="held_digest",
        becomes="""
            function(...)
              local digest = sound(...)
              if digest then
                digest.merging = nil
              end
              return digest
            end
        """,
        found_by=("test_a_half_merged_digest_is_not_buried",),
    ),
    Fault(
        says="each call that quarantines raises the revision",
        file="include/machine.lua",
        name="after_losing",
        becomes="function(digest, lost) sound(digest, lost) end",
        found_by=("test_more_than_a_call_can_quarantine_is_one_change_of_the_digest[0]",),
    ),
    Fault(
        says="a retract of the empty key takes the slot",
        file="retract.lua",
        name="record",
        becomes="sound or key == '' and pull(pending_of(timeline), '')",
        found_by=("test_the_empty_key_is_no_record",),
    ),
    Fault(
        says="a record that was retracted looks as if it had never come",
        file="include/removals.lua",
        name="note_retracted",
        becomes="function() end",
        found_by=("test_a_record_that_never_came_is_told_from_one_that_was_retracted",),
    ),
    Fault(
        says="all retracted keys are kept for ever",
        file="include/removals.lua",
        name="RETRACTED_KEYS",
        becomes="math.huge",
        found_by=("test_the_latest_retracted_keys_of_a_timeline_are_known",),
    ),
    Fault(
        says="removals of all timelines are kept for ever",
        file="include/removals.lua",
        name="place_in_ring",
        becomes="function(name, ring, tenant) return sound(name, 2 ^ 53, tenant) end",
        found_by=("test_a_bounded_number_of_timelines_has_removals",),
    ),
    Fault(
        says="only the last call that expired records is remembered",
        file="include/removals.lua",
        name="note_expired",
        becomes=using(
            "removals_of",
            "function(name) local found = usual(name) found.first_expired = nil return found end",
        ),
        found_by=("test_a_record_may_have_expired",),
    ),
    Fault(
        says="what was left out of a digest is forgotten when its next attempt leaves out more",
        file="remove.lua",
        name="left_out",
        becomes="{}",
        found_by=("test_what_a_hook_left_out_is_known_over_failed_attempts",),
    ),
    Fault(
        says="retracted keys outlive the timeline that was deleted",
        file="include/removals.lua",
        name="forget_removals",
        becomes="function() end",
        found_by=("test_a_deleted_timeline_was_never_seen",),
    ),
]

# Calls that come twice or late: include/calls.lua.
CALLING = [
    Fault(
        says="an add that is repeated counts twice",
        file="add.lua",
        name="is_repeated",
        becomes="last and last > number",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="an add is not noted",
        file="add.lua",
        name="note",
        becomes="noted or ''",
        found_by=("test_a_call_that_is_repeated_is_done_once_and_answered_as_before",),
    ),
    Fault(
        says="a call that comes too late is made",
        file="include/calls.lua",
        name="answered",
        becomes="""
            function(...)
              local reply = sound(...)
              local is_late = type(reply) == 'table' and string.find(reply.err, 'OVERTAKEN')
              return not is_late and reply or nil
            end
        """,
        found_by=("test_a_call_that_comes_after_a_later_one_is_not_done",),
    ),
    Fault(
        says="a call is made before the one that it follows",
        file="add.lua",
        name="is_early",
        becomes="false",
        found_by=("test_a_call_that_follows_another_is_refused_until_that_is_done",),
    ),
    Fault(
        says="a call that follows is made though the caller is not known",
        file="include/calls.lua",
        name="answered",
        becomes="function(noted) return sound(noted) end",
        found_by=("test_a_call_that_follows_is_refused_if_the_caller_is_not_known",),
    ),
    Fault(
        says="one reply fewer is kept than calls may be under way",
        file="include/names.lua",
        name="KEPT_REPLIES",
        becomes="sound - 1",
        found_by=("test_each_of_eight_calls_that_follow_each_other_answers_as_it_did_first",),
    ),
    Fault(
        says="answers are kept for ever",
        file="include/calls.lua",
        name="KEPT",
        becomes="math.huge",
        found_by=("test_answers_to_callers_that_are_gone_are_forgotten",),
    ),
]

# Windows and stored policies: include/machine.lua, add.lua, admit.lua, set_override.lua.
CALENDAR = [
    Fault(
        says="a time of the calendar comes twice: at the end of its own delivery",
        file="include/machine.lua",
        name="first_opening",
        becomes="function(openings, at) return sound(openings, at) end",
        found_by=("test_closed_at_exactly_that_time_the_next_is_tomorrows[ticks]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a record puts off a digest whose time has come",
        file="include/machine.lua",
        name="has_come",
        becomes="function() return false end",
        found_by=("test_a_time_that_has_come_is_not_put_off",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what has changed since it was seen is opened all the same",
        file="include/timelines.lua",
        name="is_as_seen",
        becomes="function() return true end",
        found_by=("test_what_changed_meanwhile_is_left_alone[moved-kept]",),
    ),
    Fault(
        says="an override wins over the delays of a call",
        file="include/machine.lua",
        name="in_force",
        becomes="function(terms, override) return sound(override and { given = 0 } or terms, override) end",
        found_by=("test_the_delays_of_a_call_come_first_in_an_add",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="a delay of a call outlives the ttl if the policy changed since it was checked",
        file="include/machine.lua",
        name="in_force",
        becomes=using("longest_delay", "function() return math.huge end"),
        found_by=("test_a_policy_cleared_in_between_cuts_the_delay",),
        vectors=True,
    ),
    Fault(
        says="a cool-down of a call wins over a policy that was set since it was checked",
        file="include/machine.lua",
        name="plan_in_force",
        becomes="""
            function(plan, slot)
              local here = sound(plan, slot)
              here.cool_down = slot.override and plan.given and plan.cool_down or here.cool_down
              return here
            end
        """,
        found_by=("test_a_policy_set_during_a_delivery_gives_the_cool_down[completed]",),
        vectors=True,
    ),
    Fault(
        says="the capacity of the code holds on the short way",
        file="add.lua",
        name="limits",
        becomes="arguments[4]",
        found_by=("test_the_capacity_of_an_override_holds_at_each_add",),
    ),
    Fault(
        says="what is deleted by switching a timeline off is not counted",
        file="include/off.lua",
        name="empty",
        becomes="""
            function(timeline)
              local before = tally.deleted or 0
              sound(timeline)
              count('accepted', before - tally.deleted)
              tally.deleted = before
            end
        """,
        found_by=("test_what_waits_is_deleted_and_counted[waiting]",),
    ),
]

# A fault in each transition that is left, for the arithmetic alone: include/machine.lua, include/transfer.lua.
TRANSITIONS = [
    Fault(says=says, file=f"include/{file}", name=name, becomes=becomes, found_by=(), vectors=True)
    for says, file, name, becomes in [
        (
            "a timeline that is made ready does not say since when",
            "machine.lua",
            "after_schedule",
            keeping("slot.since"),
        ),
        (
            "what is held back loses its time by the delays",
            "machine.lua",
            "after_admission_refused",
            "function(slot, later) sound(slot, later) slot.by_delays = nil end",
        ),
        (
            "an empty timeline has to be admitted",
            "machine.lua",
            "must_be_admitted",
            "function(slot, asks) return sound(slot, asks, 1) end",
        ),
        (
            "a paused timeline is admitted",
            "machine.lua",
            "may_be_admitted",
            using("slot.paused", "nil", given="slot, ..."),
        ),
        (
            "hours are open at their end",
            "machine.lua",
            "first_opening",
            """
            function(openings, at, last)
              local opening = sound(openings, openings.hours and at - 1 or at, last)
              return opening and math.max(opening, at)
            end
        """,
        ),
        (
            "the last opening is the first",
            "machine.lua",
            "last_opening",
            """
            function(openings, now, before)
              local first = first_opening(openings, now)
              return first and first < before and first or nil
            end
        """,
        ),
        (
            "another policy moves a digest that waits for its retry",
            "machine.lua",
            "after_plan",
            using("slot.digest", "nil", given="slot, ..."),
        ),
        (
            "a timeline that cools down is idle when it is switched off",
            "machine.lua",
            "after_switched_off",
            "function(slot) return slot.state == 'open' and slot or after_retirement(slot) end",
        ),
        (
            "maintenance leaves a timeline ready",
            "machine.lua",
            "after_maintenance",
            "function() end",
        ),
        (
            "a paused timeline is opened",
            "machine.lua",
            "refuse_opening",
            using("slot.paused", "nil", given="slot, ..."),
        ),
        (
            "a timeline with an unfinished digest is empty",
            "machine.lua",
            "is_empty",
            "function(_, pending) return pending == 0 end",
        ),
        (
            "a digest of so many records is not weighed",
            "machine.lua",
            "may_exceed",
            "function(records, max_bytes, heavy) return sound(records, max_bytes + 1, heavy) end",
        ),
        (
            "a new digest forgets that a large value is in it",
            "machine.lua",
            "cut",
            "function(slot, ...) sound(slot, ...) slot.digest.heavy = nil end",
        ),
        (
            "a digest forgets that a merge brought large values",
            "machine.lua",
            "after_decision",
            keeping("slot.digest.heavy"),
        ),
        (
            "large values of a dead letter are forgotten at its requeue",
            "machine.lua",
            "after_requeue",
            keeping("slot.heavy"),
        ),
        (
            "a timeline forgets that an import brought large values",
            "transfer.lua",
            "after_import_of_pending",
            keeping("slot.heavy"),
        ),
        (
            "what is dropped for its weight is not counted",
            "machine.lua",
            "after_weighing",
            keeping("digest.dropped", given="digest, ..."),
        ),
        (
            "a retry comes at the old time",
            "machine.lua",
            "after_release",
            keeping("slot.at"),
        ),
        (
            "a flush keeps the due time",
            "machine.lua",
            "after_flush",
            keeping("slot.at"),
        ),
        (
            "a replayed digest is merged with newer records",
            "machine.lua",
            "after_replay",
            keeping("digest.frozen", given="slot, digest, ..."),
        ),
        (
            "recipients who can't be reached count as served",
            "machine.lua",
            "who_got",
            "function(digest) return digest.served or {} end",
        ),
        (
            "a digest that lost nothing gets another key",
            "machine.lua",
            "after_losing",
            """
            function(digest, lost, raised)
              sound(digest, math.max(lost, 1), raised)
              digest.records = digest.records + math.max(lost, 1) - lost
            end
        """,
        ),
        (
            "a timeline that is not due retires",
            "machine.lua",
            "after_expiry",
            """
            function(slot, now, pending)
              local after = sound(slot, now, pending)
              return is_empty(after, pending) and after_retirement(after) or after
            end
        """,
        ),
        (
            "an exported timeline forgets its state",
            "transfer.lua",
            "after_begin_export",
            keeping("slot.parked"),
        ),
        (
            "records that came during an export wait for nothing",
            "transfer.lua",
            "after_commit_export",
            using("awake", "function() end"),
        ),
        (
            "a timeline that stays is idle with records",
            "transfer.lua",
            "after_abort_export",
            """
            function(slot, pending)
              local state = slot.parked or 'waiting'
              sound(slot, pending)
              slot.state = state
            end
        """,
        ),
        (
            "a timeline that is imported is not paused",
            "transfer.lua",
            "after_import_of_timeline",
            using("exported.paused", "nil", given="slot, exported"),
        ),
        (
            "an urgent record that is imported is not urgent",
            "transfer.lua",
            "pulled_by_urgency",
            "function() end",
        ),
        (
            "an import that is completed stays open",
            "transfer.lua",
            "after_import_completed",
            "function() end",
        ),
    ]
]

# Records of dead letters that are pending again: requeue.lua, prepare.lua and include/machine.lua.
REQUEUEING = [
    Fault(
        says="a requeue replaces a later version that is pending",
        file="requeue.lua",
        name="is_latest",
        becomes="true",
        found_by=("test_a_later_version_that_is_pending_stays",),
        model=True,
    ),
    Fault(
        says="a merge replaces a later version by one that was requeued",
        file="prepare.lua",
        name="is_latest",
        becomes="true",
        found_by=("test_a_later_version_in_a_failed_digest_stays_when_they_merge",),
    ),
    Fault(
        says="what may have gone out is requeued",
        file="include/machine.lua",
        name="refuse_requeue",
        becomes=using("may_have_gone_out", "function() end"),
        found_by=("test_what_may_have_gone_out_is_refused_unless_forced[unknown]",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what was requeued leaves at once, each letter on its own",
        file="include/machine.lua",
        name="after_requeue",
        becomes="function(slot, now, terms, _, pending) sound(slot, now, terms, 0, pending) end",
        found_by=("test_three_dead_letters_of_a_timeline_leave_as_one_digest",),
        model=True,
        vectors=True,
    ),
    Fault(
        says="what was requeued never expires",
        file="requeue.lua",
        name="expires",
        becomes="nil",
        found_by=("test_their_ttl_counts_from_the_requeue",),
        model=True,
    ),
    Fault(
        says="a requeue fills a timeline beyond its capacity",
        file="requeue.lua",
        name="dropped",
        becomes="0",
        found_by=("test_a_capacity_below_what_comes_back_holds_after_each_page",),
        model=True,
    ),
    Fault(
        says="the rest of a letter comes under the key of the whole",
        file="requeue.lua",
        name="revision",
        becomes="letter.revision",
        found_by=("test_what_an_interrupted_requeue_left_is_a_dead_letter_as_any[replay]",),
        model=True,
    ),
    Fault(
        says="a call moves more records than it may",
        file="include/pages.lua",
        name="oldest_keys",
        becomes="function(batch) return sound(batch, 1e6) end",
        found_by=("test_an_interrupted_requeue_can_be_made_again",),
        model=True,
    ),
]

# While the store is being moved.
MOVING = [
    Fault(
        says="a store that is being moved delivers the first record of an idle timeline",
        file="include/machine.lua",
        name="awaken",
        becomes="function(slot, now, terms, pending) sound(slot, now, terms, pending, slot.paused) end",
        found_by=("test_an_idle_timeline_waits_when_a_record_arrives[1]",),
        vectors=True,
    ),
    Fault(
        says="a store that is being moved lets a timeline be opened",
        file="include/moving.lua",
        name="refusal",
        becomes="nil",
        found_by=("test_nothing_is_opened_flushed_replayed_or_requeued",),
    ),
    Fault(
        says="a store that is being moved admits what was a candidate before",
        file="admit.lua",
        name="admissions",
        becomes="request.admissions",
        found_by=("test_what_was_a_candidate_before_is_not_admitted[None-token]",),
    ),
    Fault(
        says="records that follow do not put their digest off",
        file="include/machine.lua",
        name="after_push",
        becomes="function() end",
        found_by=("test_as_many_digests_go_out_as_without_a_move[False]",),
    ),
]

# What comes along with a timeline, and changes what the target may hold: import_pages.lua.
ARRIVING = [
    Fault(
        says="off that arrives leaves what is pending",
        file="import_pages.lua",
        name="import_pending",
        becomes=using("empty", "function(timeline) timeline.slot = after_switched_off(timeline.slot) end"),
        found_by=("test_off_that_arrives_empties_the_timeline[False-ready]",),
    ),
    Fault(
        says="a digest that arrives is tried again though its timeline is off",
        file="import_pages.lua",
        name="import_digest",
        becomes=using("is_off", "function() return false end"),
        found_by=("test_a_digest_that_brings_off_along_is_deleted_with_what_waits[1]",),
    ),
    Fault(
        says="what was chosen during an export is lost",
        file="include/transfer.lua",
        name="after_commit_export",
        becomes=using("since_of", "function() end"),
        found_by=("test_what_is_chosen_while_a_timeline_is_copied_follows[False-off]",),
        vectors=True,
    ),
    Fault(
        says="a policy that arrives does not move what waits",
        file="import_pages.lua",
        name="import_pending",
        becomes=using("plan", "function() end"),
        found_by=("test_a_policy_that_arrives_moves_what_waits[0-minimum=1m-60]",),
    ),
]

# What something else deleted or damaged: include/losses.lua, quarantine_timeline.lua.
LOSING = [
    Fault(
        says="a repair forgets what people chose for a timeline that was idle with records",
        file="quarantine_timeline.lua",
        name="keeps_choices",
        becomes="false",
        found_by=("test_a_timeline_that_is_idle_with_records_is_named_and_repaired",),
    ),
    Fault(
        says="a record that is gone from a digest is counted as delivered",
        file="take.lua",
        name="is_whole",
        becomes="found >= held",
        found_by=("test_a_replay_of_such_a_letter_delivers_the_others",),
    ),
    Fault(
        says="a digest that lost a record comes again under the same key",
        file="include/losses.lua",
        name="recount",
        becomes=keeping("timeline.slot.digest.revision", given="timeline"),
        found_by=("test_what_vanished_from_a_digest_that_comes_again_is_lost",),
    ),
    Fault(
        says="pending records that are gone stay in the ledger",
        file="include/claims.lua",
        name="look_for_losses",
        becomes="count_pending",
        found_by=("test_a_record_that_is_gone_with_its_key_is_lost",),
    ),
    Fault(
        says="a dead letter that lost a record leaves it in the ledger",
        file="requeue.lua",
        name="lost",
        becomes="count('dead', sound) or sound",
        found_by=("test_a_dead_letter_that_lost_a_record_gives_back_the_others",),
    ),
    Fault(
        says="a dead letter without a value is replayed",
        file="include/endings.lua",
        name="lacks_its_value",
        becomes="function() return false end",
        found_by=("test_a_dead_letter_without_a_value_can_only_be_discarded",),
    ),
    Fault(
        says="a value that vanished from a large digest leaves no letter",
        file="quarantine.lua",
        name="is_without_value",
        becomes="false",
        found_by=("test_a_value_that_vanished_from_a_large_digest_is_a_dead_letter_with_its_key",),
    ),
]

# Clocks that are set back: end_leases.lua and its rules.
CLOCKS = [
    Fault(
        says="a lease that was renewed since it was seen is ended",
        file="include/machine.lua",
        name="is_leased_until",
        becomes="function(slot) return slot.state == 'open' and not slot.parked end",
        found_by=("test_a_lease_ends_early_only_if_its_end_is_the_one_that_was_seen",),
    ),
    Fault(
        says="what a clock that was set back left a day ahead is planned a day ahead again",
        file="include/machine.lua",
        name="not_after",
        becomes="function(time) return time end",
        found_by=("test_after_a_clock_was_set_back_what_waits_is_planned_by_now",),
        vectors=True,
    ),
    Fault(
        says="every lease counts as one that is too far ahead",
        file="leases_beyond.lua",
        name="first",
        becomes="'-inf'",
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
