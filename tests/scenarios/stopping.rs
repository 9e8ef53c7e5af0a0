//! Stopping (S1 to S8): in which order, how long at most, which callers get an answer, and which are refused.

mod cgroups_left;
mod just_spawned;
mod programs;
mod running_and_new;
mod s1_reverse_order;
mod s2_whole_cgroup;
mod s3_total_deadline;
mod s4_delay;
mod s5_once_as_first_asked;
mod s6_streams_end;
mod s7_needed_by_others;
mod s8_modes;
mod without_a_limit;

use kelson_tests::ctl::Events;
use kelson_tests::{Event, Host, PATIENCE};

/// Number of the first event in which a service was in this state, of those that are given.
#[track_caller]
fn first<'a>(events: &'a [Event], service: &str, state: &str) -> &'a Event {
    events
        .iter()
        .find(|event| event.service == service && event.state == state)
        .unwrap_or_else(|| panic!("no event of {service} being {state} in {events:#?}"))
}

/// The events from now on, by a stream that stands when this returns.
#[track_caller]
fn following(host: &Host) -> Events {
    let mut events = host.follow_events(host.newest_event());
    events.next(PATIENCE).expect("the newest event");
    events
}
