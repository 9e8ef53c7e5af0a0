//! `logs` and `dmesg`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::super::time;

/// One line of `logs`.
#[derive(Debug, Clone, Serialize)]
pub struct LogLine {
    pub service: String,
    pub time: Option<String>,
    /// `stdout`, `stderr`, or `note` for what logd itself says.
    pub stream: &'static str,
    /// Bytes that are not UTF-8 are replaced.
    pub text: String,
    pub partial: bool,
    /// The run of the service that wrote it, where that is known.
    pub run: Option<u64>,
    /// The same for all lines of one start of the host: runs count from there.
    pub boot: Option<String>,
}

impl From<&v1::Line> for LogLine {
    fn from(line: &v1::Line) -> LogLine {
        LogLine {
            service: line.service.clone(),
            time: line.time.as_ref().map(time::rfc3339),
            stream: match line.stream() {
                v1::line::Stream::Unspecified => "",
                v1::line::Stream::Stdout => "stdout",
                v1::line::Stream::Stderr => "stderr",
                v1::line::Stream::Note => "note",
            },
            text: String::from_utf8_lossy(&line.text).into_owned(),
            partial: line.partial,
            run: Some(line.run).filter(|run| *run > 0),
            boot: Some(line.boot).filter(|boot| *boot > 0).map(|boot| format!("{boot:04x}")),
        }
    }
}

/// One line of `dmesg`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelMessage {
    pub seq: u64,
    /// Since the kernel's start.
    pub time_ms: f64,
    pub level: u32,
    pub text: String,
}

impl From<&v1::KernelMessage> for KernelMessage {
    fn from(message: &v1::KernelMessage) -> KernelMessage {
        KernelMessage {
            seq: message.seq,
            time_ms: message.time.as_ref().map_or(0.0, |t| time::millis(time::duration(t))),
            level: message.level,
            text: message.text.clone(),
        }
    }
}
