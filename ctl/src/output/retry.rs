//! A service that is tried again: what ended its last run, and the time that is left until the next one.

use std::time::Duration;

use kelson_proto::v1::Retry;

use super::time;

/// Why a service is in its state; in backoff with the time that is left now, and not the one of its beginning.
pub fn message(message: &str, retry: Option<&Retry>) -> String {
    match retry.and_then(|retry| Some((retry, retry.restart_in.as_ref()?))) {
        Some((Retry { ended, budget, .. }, left)) => {
            let text = format!("{ended}, restarting {} {budget}", when(time::duration(left)));
            text.trim_end().to_owned()
        }
        None => message.to_owned(),
    }
}

/// The conditions that it waits for, with the reason why its last run ended.
pub fn waiting(waiting_for: &[String], retry: Option<&Retry>) -> String {
    let waits = waiting_for.join(", ");
    match retry {
        Some(retry) => format!("{waits}; the last run: {}", retry.ended),
        None => waits,
    }
}

/// In whole seconds, so that the last of them is the first.
fn when(left: Duration) -> String {
    match left {
        Duration::ZERO => "now".to_owned(),
        left => format!("in {}", time::passed(left + Duration::from_nanos(999_999_999))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(left: Option<u64>, budget: &str) -> Retry {
        let restart_in = left.map(|millis| time::to_wire(Duration::from_millis(millis)));
        Retry { ended: "exited with status 3 after 1.2 s".to_owned(), restart_in, budget: budget.to_owned() }
    }

    #[test]
    fn the_time_until_a_restart_is_that_of_now() {
        let said = "exited with status 3 after 1.2 s, restarting in 2m (2 of 5 in 5m)";
        let text = |left, budget| message(said, Some(&retry(left, budget)));
        let budget = "(2 of 5 in 5m)";
        for (left, expected) in [(119_001, "in 2m"), (61_000, "in 1m1s"), (310, "in 1 s"), (0, "now")] {
            assert_eq!(
                text(Some(left), budget),
                format!("exited with status 3 after 1.2 s, restarting {expected} {budget}")
            );
        }
        assert_eq!(text(Some(4000), ""), "exited with status 3 after 1.2 s, restarting in 4 s");
        assert_eq!(text(None, ""), said, "not in backoff");
        assert_eq!(message(said, None), said, "of a host with an earlier release");
    }

    #[test]
    fn what_waits_again_says_what_ended_it() {
        let for_db = ["service \"db\" to be up".to_owned()];
        assert_eq!(waiting(&for_db, None), "service \"db\" to be up");
        assert_eq!(
            waiting(&for_db, Some(&retry(None, ""))),
            "service \"db\" to be up; the last run: exited with status 3 after 1.2 s"
        );
    }
}
