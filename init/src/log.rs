//! The log of PID 1: events of `tracing` go to the kernel's log as plain lines.
//!
//! A subscriber of our own instead of `tracing-subscriber`: PID 1 needs no spans, filters or colours, and a line
//! `message key=value` is a page of code.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::kmsg::Console;
use crate::options::Mode;

/// `tracing` and the panic hook are process-wide by nature, and so is what they write to.
static CONSOLE: OnceLock<Console> = OnceLock::new();

/// Sends `tracing` and panics to the kernel's log (machine mode) or to stderr. Called once, first thing.
pub fn install(mode: Mode) {
    let _ = CONSOLE.set(Console::new(mode == Mode::Machine));
    let _ = tracing::subscriber::set_global_default(Lines);
    std::panic::set_hook(Box::new(|info| {
        write(Level::ERROR, &format!("a fault in Kelson itself: {info}"));
    }));
}

/// Writes one message past `tracing`.
pub fn write(level: Level, text: &str) {
    if let Some(console) = CONSOLE.get() {
        console.write(level, text);
    }
}

/// From now on nobody but a thread for it waits for the kernel's log. To be called once all signals are blocked.
pub fn write_from_a_thread() {
    if let Some(Err(error)) = CONSOLE.get().map(Console::write_from_a_thread) {
        tracing::warn!("a console that nobody reads can hold PID 1 up: {error}");
    }
}

/// Waits until all lines are written, for a bounded time: called before the thread that writes them ends.
pub fn settle(patience: Duration) {
    if let Some(console) = CONSOLE.get() {
        console.settle(patience);
    }
}

/// As [`settle`], before the kernel's own last words: a console that does not take ours is not to hold those up.
pub fn settle_for_good(patience: Duration) {
    if let Some(console) = CONSOLE.get()
        && !console.settle(patience)
    {
        console.print_no_more();
    }
}

/// The kernel lets each writer pass ten lines in five seconds and drops the rest unseen; a boot has more to say.
///
/// # Errors
/// When `/proc` is not there or not writable.
pub fn lift_rate_limit() -> std::io::Result<()> {
    std::fs::write("/proc/sys/kernel/printk_devkmsg", "on\n")
}

/// Turns each event into a line.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Other crates' chatter (h2, hyper, tonic) is of no use to an operator.
        let ours = metadata.target().starts_with("kelson") || metadata.target().starts_with("init");
        let least = if ours { Level::INFO } else { Level::WARN };
        !metadata.is_span() && *metadata.level() <= least
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        write(*event.metadata().level(), &line.finish());
    }
}

/// The message, then the other fields as `key=value`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &format_args!("{value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Formats as [`Lines`] does and keeps the line.
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Lines.enabled(metadata)
        }
        fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
            Lines.new_span(attributes)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line.finish());
        }
    }

    #[test]
    fn an_event_is_one_plain_line_and_strangers_chatter_is_none() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Kept(kept.clone()), || {
            tracing::info!(pid = 7, name = "a b", "service \"{}\" is up", "web");
            tracing::debug!("not shown");
            tracing::info!(target: "h2::proto", "not shown");
            tracing::warn!(target: "h2::proto", "shown");
        });
        assert_eq!(*kept.lock().unwrap(), ["service \"web\" is up pid=7 name=\"a b\"", "shown"]);
    }
}
