//! `dashboard`: one host, live.

use std::time::Duration;

use crate::call::{Call, Run};
use crate::console::missing_terminal;
use crate::dashboard;
use crate::failure::Failure;
use crate::output::time;

/// PID 1 measures what services use no more often.
const SHORTEST: Duration = Duration::from_secs(1);

/// Watch one host live: services, logs, events
///
/// It takes the whole terminal, of at least 40x10, and needs no more of it than
/// to place text: a serial console is enough. `?` lists the keys. Start, stop
/// and restart ask for confirmation.
///
/// Examples:
///   kelsonctl dashboard
///   kelsonctl -n edge-1 dashboard
///   kelsonctl dashboard --interval 10s
#[derive(Debug, Clone, clap::Args)]
#[command(visible_alias = "top", verbatim_doc_comment)]
pub struct Arguments {
    /// How often the host is asked
    #[arg(long, value_name = "D", default_value = "2s", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, Failure> {
    match time::parse_timeout(text)? {
        interval if interval < SHORTEST => Err(Failure::Usage("it must be 1s or longer".to_owned())),
        interval => Ok(interval),
    }
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let instead = "`kelsonctl services --watch` needs none";
        if let Some(missing) = missing_terminal(true) {
            return Err(Failure::Usage(format!(
                "dashboard needs a terminal, and the standard {missing} is none; {instead}"
            )));
        }
        if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
            return Err(Failure::Usage(format!(
                "dashboard needs a terminal that can place text, and TERM says this one is dumb; {instead}"
            )));
        }
        if !call.is_table() {
            return Err(Failure::Usage(
                "dashboard is for people and has no other form; -o belongs to services, events, metrics and others"
                    .to_owned(),
            ));
        }
        dashboard::show(call, self.interval).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_measured_more_often_than_that() {
        assert_eq!(interval("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(interval("1"), Ok(SHORTEST));
        assert_eq!(interval("500ms").unwrap_err().to_string(), "it must be 1s or longer");
    }
}
