//! The suite: every function checks sentences of the contract on a pair that the transport's constructor makes.

pub mod calls;
pub mod flow;
pub mod memory;
pub mod random;
pub mod sleep;

/// Makes a test of every check of the suite, on pairs that `$pair: fn(WireConfig, first: u32) -> Pair` connects.
macro_rules! conformance {
    ($pair:ident) => {
        $crate::conformance::conformance!(@ $pair:
            flow: order_is_kept_per_port, ports_are_independent, a_port_holds_depth_messages, both_directions_at_once,
                every_size_arrives, a_reserved_slot_stays, less_may_be_committed_than_reserved, pieces_are_joined,
                counters_wrap, a_port_that_is_full_names_no_other;
            calls: another_operation_differs, another_fingerprint_differs, another_length_differs, a_difference_stays,
                a_stale_message_is_not_taken_for_new;
            memory: a_copy_leaves_the_span_free, a_lent_span_is_read_until_done, a_called_back_span_is_not_read,
                a_span_being_read_is_not_called_back, a_reader_can_give_up, a_posted_span_is_filled,
                a_message_goes_back_in_its_place, what_was_released_is_flushed, lost_keeps_what_came;
            sleep: a_message_wakes, a_release_wakes, a_ringer_wakes, a_timeout_wakes;
            random: like_queues, like_queues_at_the_wrap;
        );
    };
    (@ $pair:ident: $($topic:ident: $($check:ident),+;)+) => {
        $($(
            #[test]
            fn $check() {
                $crate::conformance::$topic::$check(&$pair);
            }
        )+)+
    };
}

pub(crate) use conformance;

use crate::pair::Pair;
use hcomm_transports::WireConfig;

/// A transport's constructor of a connected pair.
pub type Connect<'a> = &'a dyn Fn(WireConfig, u32) -> Pair;
