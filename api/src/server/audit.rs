//! The audit: a line for each call that may change something, in a log of its own.
//!
//! ```text
//! call=Services.Restart what="web, db" who="CN=ann sha256:… from 192.0.2.7:40001" role=os:operator result=ok ms=120 told="web: done; db: refused"
//! ```
//!
//! The audit covers the calls that a reader may not make ([`kelson_proto::access`]). Kelson writes the line
//! when the call is answered, or given up by its caller: then the work that was begun goes on. kelson-logd
//! keeps it as it keeps the log of a service; while nobody takes lines they are in the kernel log alone.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tonic::codegen::http::HeaderMap;
use tonic::{Code, Request};

use super::caller::Caller;
use kelson_proto::access::{self, Role};

/// The log's name: no service can have it.
pub const NAME: &str = "audit";
/// Longest text of a field in a line, in bytes: with its three fields a line is no longer than PIPE_BUF, so it is written
/// whole or not at all.
const TEXT_MAX: usize = 1200;

/// Where the lines go. Cheap to clone.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Pipes>>);

struct Pipes {
    lines: File,
    /// Nobody writes to it; it is kept so that the log's run has not ended.
    _errors: OwnedFd,
}

impl Audit {
    /// The write ends of the two pipes of a log.
    ///
    /// # Errors
    /// When the first cannot be set so that no write ever waits.
    pub fn new((lines, errors): (OwnedFd, OwnedFd)) -> io::Result<Audit> {
        let flags = OFlag::from_bits_retain(fcntl(&lines, FcntlArg::F_GETFL)?);
        fcntl(&lines, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Audit(Some(Arc::new(Pipes { lines: File::from(lines), _errors: errors }))))
    }

    fn write(&self, line: &str) {
        let Some(pipes) = &self.0 else { return };
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        // Not longer than PIPE_BUF: all of it or nothing.
        if let Err(error) = (&pipes.lines).write_all(&bytes) {
            tracing::error!("not in the log {NAME} ({error}): {line}");
        }
    }

    /// The record of a call that has come in. `None`: it only looks.
    pub fn begin(&self, path: &str, caller: &Caller) -> Option<Arc<Record>> {
        let access = access::of(path).filter(|access| access.role > Role::Reader)?;
        let mut head = format!("call={}", access::method(access.path));
        let _ = write!(head, " who={} role={}", quoted(&caller.identity()), caller.role());
        let open = Open { what: String::new(), outcome: String::new(), result: None };
        let (audit, began, open) = (self.clone(), Instant::now(), Mutex::new(open));
        Some(Arc::new(Record { audit, head, began, open }))
    }
}

/// One call. Its line is written when the last one who knows of it drops it.
pub struct Record {
    audit: Audit,
    head: String,
    began: Instant,
    open: Mutex<Open>,
}

struct Open {
    what: String,
    outcome: String,
    result: Option<Code>,
}

impl Record {
    fn change(&self, change: impl FnOnce(&mut Open)) {
        change(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes the object of the change.
    pub fn what(&self, what: &str) {
        self.change(|open| what.clone_into(&mut open.what));
    }

    /// Notes the outcome, besides that the call was answered.
    pub fn outcome(&self, outcome: &str) {
        self.change(|open| outcome.clone_into(&mut open.outcome));
    }

    /// The call has this answer.
    pub fn answered(&self, code: Code) {
        self.change(|open| open.result = Some(code));
    }

    /// A line now, besides that of the end: it may be long until then.
    pub fn note(&self, outcome: &str) {
        let Open { what, .. } = &*self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.audit.write(&self.line(what, "begun", outcome));
    }

    fn line(&self, what: &str, result: &str, outcome: &str) -> String {
        let mut line = self.head.clone();
        if !what.is_empty() {
            let _ = write!(line, " what={}", quoted(what));
        }
        let _ = write!(line, " result={result} ms={}", self.began.elapsed().as_millis());
        if !outcome.is_empty() {
            let _ = write!(line, " told={}", quoted(outcome));
        }
        line
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (what, outcome) = (std::mem::take(&mut open.what), std::mem::take(&mut open.outcome));
        let result = match open.result {
            Some(Code::Ok) => "ok".to_owned(),
            Some(Code::PermissionDenied) => "denied".to_owned(),
            Some(code) => format!("failed:{code:?}"),
            None => "given-up".to_owned(),
        };
        self.audit.write(&self.line(&what, &result, &outcome));
    }
}

/// The record of this call; a handler says there what it is about.
pub fn record<T>(request: &Request<T>) -> Option<Arc<Record>> {
    request.extensions().get::<Arc<Record>>().cloned()
}

/// The status in the headers of an answer, which is there where the call has failed.
pub fn code(headers: &HeaderMap) -> Code {
    headers.get("grpc-status").map_or(Code::Ok, |value| Code::from_bytes(value.as_bytes()))
}

/// One word for a program that reads it: nothing breaks out, or grows without an end.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        let length = quoted.len();
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            ' '..='~' => quoted.push(char),
            other => quoted.extend(other.escape_default()),
        }
        if quoted.len() > TEXT_MAX {
            quoted.truncate(length);
            quoted.push_str("...");
            break;
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn log() -> (Audit, File) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let (_, errors) = nix::unistd::pipe().unwrap();
        (Audit::new((writer, errors)).unwrap(), File::from(reader))
    }

    fn ann() -> Caller {
        Caller::Remote { identity: "CN=ann from 192.0.2.7:1".into(), role: Some(Role::Operator) }
    }

    fn lines(audit: Audit, mut reader: File) -> String {
        drop(audit);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        // How long it took is another number each time.
        let words = text.split_inclusive([' ', '\n']).map(|word| match word.strip_prefix("ms=") {
            Some(rest) => rest.trim_start_matches(|char: char| char.is_ascii_digit()),
            None => word,
        });
        words.collect::<String>().replace("  ", " ").replace(" \n", "\n")
    }

    #[test]
    fn the_longest_record_is_written_whole_or_not_at_all() {
        let (audit, mut reader) = log();
        let long = "\u{1F600}".repeat(5000);
        let record = |identity: &str| {
            let caller = Caller::Remote { identity: identity.into(), role: Some(Role::Operator) };
            let record = audit.begin("/kelson.v1.Services/Restart", &caller).unwrap();
            record.what(&long);
            record.outcome(&long);
        };
        // As many as fit into the pipe, and more.
        for number in 0..40 {
            record(&format!("{number} {long}"));
        }
        drop(audit);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.lines().count() >= 15, "{}", text.lines().count());
        for (number, line) in text.split_inclusive('\n').enumerate() {
            assert!(line.len() <= libc::PIPE_BUF && line.ends_with("...\"\n"), "{line}");
            assert!(line.contains(&format!(" who=\"{number} ")), "{line}");
        }
    }

    #[test]
    fn a_call_is_one_line_when_it_is_over() {
        let (audit, reader) = log();
        let record = audit.begin("/kelson.v1.Services/Restart", &ann()).unwrap();
        record.what("web, db");
        record.outcome("web: done; db: \"no\"");
        record.answered(Code::Ok);
        drop(record);
        let record =
            audit.begin("/kelson.v1.Machine/Shutdown", &Caller::Local { uid: 0, pid: Some(7) }).unwrap();
        record.answered(Code::FailedPrecondition);
        drop(record);
        drop(audit.begin("/kelson.v1.Exec/Run", &ann()));
        assert_eq!(
            lines(audit, reader),
            "call=Services.Restart who=\"CN=ann from 192.0.2.7:1\" role=os:operator what=\"web, db\" result=ok \
             told=\"web: done; db: \\\"no\\\"\"\n\
             call=Machine.Shutdown who=\"user 0 (process 7)\" role=local result=failed:FailedPrecondition\n\
             call=Exec.Run who=\"CN=ann from 192.0.2.7:1\" role=os:operator result=given-up\n"
        );
    }

    #[test]
    fn who_only_looks_is_not_written_down() {
        let (audit, reader) = log();
        for path in ["/kelson.v1.Services/List", "/kelson.v1.Machine/Dmesg", "/no.Such/Thing"] {
            assert!(audit.begin(path, &ann()).is_none(), "{path}");
        }
        assert_eq!(lines(audit, reader), "");
    }

    #[test]
    fn nothing_breaks_out_of_a_field_or_grows() {
        assert_eq!(quoted("a\nb\u{1b}ü\\"), "\"a\\nb\\u{1b}\\u{fc}\\\\\"");
        assert!(quoted(&"x".repeat(5000)).len() < TEXT_MAX + 10);
    }

    #[test]
    fn nobody_who_reads_it_holds_a_call_up() {
        let (audit, reader) = log();
        for _ in 0..2000 {
            drop(audit.begin("/kelson.v1.Machine/Reexec", &ann()));
        }
        let whole = lines(audit, reader);
        assert!(whole.lines().count() > 100 && whole.lines().all(|line| line.ends_with("result=given-up")));
    }
}
