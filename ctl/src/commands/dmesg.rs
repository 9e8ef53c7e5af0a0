//! `dmesg`: the kernel's log.

use kelson_api::client::Client;
use kelson_proto::v1::{DmesgRequest, KernelMessage};

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::follow::Reconnect;
use crate::output::{Palette, Tone, escape, print, time, views};

/// Show the kernel log, with Kelson's own messages
///
/// Examples:
///   kelsonctl dmesg
///   kelsonctl dmesg -f
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Continue with new lines
    #[arg(short, long)]
    follow: bool,
}

views! {
    // `time_ms`: since the kernel's start.
    KernelMessage: message { seq, time_ms: message.time.unwrap_or_default(), level, text }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let mut reconnect = call.reconnect();
        let mut next = None;
        while let Err(failure) = stream(call, &client, self.follow, &mut next, &mut reconnect).await {
            reconnect.follow(self.follow, failure).await?;
        }
        Ok(())
    }
}

/// One stream to its end; `next` is the number that was not printed yet.
async fn stream(
    call: &Call,
    client: &Client,
    follow: bool,
    next: &mut Option<u64>,
    reconnect: &mut Reconnect,
) -> Result<(), Failure> {
    let mut batches = client.machine().dmesg(DmesgRequest { follow }).await?.into_inner();
    while let Some(batch) = batches.message().await? {
        reconnect.works();
        let mut lines = String::new();
        for message in &batch.messages {
            if next.is_some_and(|next| message.seq < next) {
                continue;
            }
            lines += &call.item(message, || line(message, call.terminal.palette))?;
            *next = Some(message.seq.saturating_add(1));
        }
        if !lines.is_empty() {
            print(&lines)?;
        }
    }
    Ok(())
}

/// When it was written: `[   12.345678]`.
pub fn stamp(message: &KernelMessage) -> String {
    let at = time::span(&message.time);
    format!("[{:>5}.{:06}]", at.as_secs(), at.subsec_micros())
}

/// `[   12.345678] text`, by its level.
fn line(message: &KernelMessage, palette: Palette) -> String {
    let tone = match message.level {
        0..=3 => Tone::Bad,
        4 => Tone::Waiting,
        5..=6 => Tone::Plain,
        _ => Tone::Quiet,
    };
    format!(
        "{} {}\n",
        palette.paint(Tone::Quiet, &stamp(message)),
        palette.paint(tone, &escape(&message.text))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel() {
        let message = KernelMessage {
            seq: 1,
            time: Some(prost_types::Duration { seconds: 12, nanos: 345_678_900 }),
            level: 3,
            text: "I/O error\x1b[0m".to_owned(),
        };
        assert_eq!(line(&message, Palette::None), "[   12.345678] I/O error\\x1b[0m\n");
        assert_eq!(
            line(&message, Palette::Sixteen),
            "\x1b[90m[   12.345678]\x1b[0m \x1b[31mI/O error\\x1b[0m\x1b[0m\n"
        );
    }
}
