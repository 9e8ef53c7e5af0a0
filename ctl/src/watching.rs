//! The words of a command that runs again and again.

use std::time::Duration;

use crate::failure::Failure;
use crate::output::time;

/// Shorter than this a host would do little but answer.
const SHORTEST: Duration = Duration::from_millis(100);

/// The words of a command that can be done again and again.
#[derive(Debug, Clone, clap::Args)]
pub struct Watching {
    /// Show it again every 2s, or at this interval
    #[arg(short, long, value_name = "D", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = parse_period)]
    pub watch: Option<Duration>,
}

/// The words of a command that is always done again and again.
#[derive(Debug, Clone, clap::Args)]
pub struct Repeating {
    /// How often it is shown
    #[arg(id = "watch", long = "interval", value_name = "D", default_value = "5s", value_parser = parse_period)]
    pub interval: Duration,
}

/// Reads how long it is between two times.
pub fn parse_period(text: &str) -> Result<Duration, Failure> {
    match time::parse_timeout(text)? {
        period if period < SHORTEST => Err(Failure::Usage("it must be 100ms or longer".to_owned())),
        period => Ok(period),
    }
}
