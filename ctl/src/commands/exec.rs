//! `exec`: a command beside a service, as if it ran here: its input, output, signals and exit status.

mod expiry;

use kelson_api::client::Client;
use kelson_proto::v1::run_request::Request as Asked;
use kelson_proto::v1::run_response::Response as Answer;
use kelson_proto::v1::{RunExited, RunRequest, RunResponse, RunStart};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Streaming};

use crate::call::{Call, Run};
use crate::console::keyboard::{self, Keyboard};
use crate::console::signals::{Signals, of_signal};
use crate::console::writer::{Piece, Writer};
use crate::console::{missing_terminal, read_input};
use crate::failure::{Failure, explain_names, respond};
use crate::output::note;
use crate::output::terminal::end_by_sigpipe;
use expiry::Expiry;

/// Run a command beside a service
///
/// The command runs with the service's user, environment, limits and
/// confinement, in its cgroup. It ends with the service, and when kelsonctl goes
/// away. The first SIGINT (Ctrl-C) or SIGTERM is forwarded to the command, the
/// second one ends kelsonctl.
///
/// The exit status is that of the command, or 128+N if signal N ended it. If
/// kelsonctl itself fails (with 1 to 5, as always), and only then, it prints a
/// line `kelsonctl: ...` on the standard error.
///
/// Over the network the command ends when the client's certificate expires. One
/// minute before, a line `warning: ...` on the standard error announces this.
///
/// Examples:
///   kelsonctl exec -it db /bin/sh
///   kelsonctl exec db -- /usr/bin/db-check --fast
///   kelsonctl exec -i db -E LANG=C -- /usr/bin/db-load <dump
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Forward the standard input to it
    #[arg(short, long)]
    interactive: bool,
    /// Give it a terminal, of the size of this one
    #[arg(short, long)]
    tty: bool,
    /// Add a variable to the service's environment
    #[arg(short = 'E', long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<String>,
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
    /// The command and its arguments; `--` before one that begins with -
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

fn variable(text: &str) -> Result<String, Failure> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err(Failure::Usage("it takes NAME=VALUE".to_owned())),
    }
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        if let Some(missing) = missing_terminal(self.interactive).filter(|_| self.tty) {
            return Err(Failure::Usage(format!("-t needs a terminal, and the standard {missing} is none")));
        }
        let mut signals = Signals::new()?;
        let client = call.client()?;
        let (requests, stream) = mpsc::channel(1);
        let start = start(&self);
        let starting = begin(&client, start, &requests, ReceiverStream::new(stream), &self.name);
        let responses = tokio::select! {
            started = starting => started?,
            number = signals.leaving() => return Err(Failure::Ended(of_signal(number))),
        };
        // From here on to its drop, on whichever way, the terminal is the command's.
        let keyboard = (self.tty && self.interactive).then(Keyboard::hand_over).transpose()?;
        let input = self.interactive.then(read_input).transpose()?;
        let expiry = Expiry::of(responses.metadata(), keyboard.is_some());
        let (responses, writer) = (responses.into_inner(), Writer::new()?);
        let session = Session { requests, responses, writer, expiry, tty: self.tty };
        let ended = session.run(input, &mut signals).await;
        drop(keyboard);
        match ended? {
            End::Exited(RunExited { status: Some(0), .. }) => Ok(()),
            End::Exited(RunExited { status: Some(status), .. }) => Err(Failure::Ended(lowest_byte(status))),
            End::Exited(RunExited { signal: Some(signal), .. }) => Err(Failure::Ended(of_signal(signal))),
            End::Exited(_) => Err(Failure::Failed("the command ended unseen".to_owned())),
            End::Left(signal) => {
                note("left the command: the host kills it");
                Err(Failure::Ended(of_signal(signal)))
            }
            End::Unread => end_by_sigpipe(),
        }
    }
}

fn start(arguments: &Arguments) -> RunStart {
    let mut environment = arguments.environment.clone();
    // A program asks it for what this terminal can do.
    if arguments.tty
        && !environment.iter().any(|entry| entry.starts_with("TERM="))
        && let Ok(term) = std::env::var("TERM")
    {
        environment.push(format!("TERM={term}"));
    }
    RunStart {
        name: arguments.name.clone(),
        command: arguments.command.clone(),
        input: arguments.interactive,
        terminal: arguments.tty.then(keyboard::window_size),
        environment,
    }
}

/// Opens the stream; the command runs, or an error says why not.
async fn begin(
    client: &Client,
    start: RunStart,
    requests: &mpsc::Sender<RunRequest>,
    stream: ReceiverStream<RunRequest>,
    name: &str,
) -> Result<Response<Streaming<RunResponse>>, Failure> {
    // There is room for it: the stream is empty.
    let _ = requests.send(asked(Asked::Start(start))).await;
    match respond(client.exec().run(stream)).await {
        Ok(responses) => Ok(responses),
        Err(failure) => Err(explain_names(failure, client, &[name.to_owned()]).await),
    }
}

fn asked(request: Asked) -> RunRequest {
    RunRequest { request: Some(request) }
}

/// The part of an exit status that the kernel hands on.
fn lowest_byte(status: i32) -> u8 {
    status.to_le_bytes()[0]
}

/// How a session ended.
enum End {
    Exited(RunExited),
    /// By a signal to this process.
    Left(i32),
    /// Nobody reads the output any more.
    Unread,
}

struct Session {
    requests: mpsc::Sender<RunRequest>,
    responses: Streaming<RunResponse>,
    writer: Writer,
    expiry: Expiry,
    tty: bool,
}

impl Session {
    /// Until the command has ended and all that it wrote is written here.
    async fn run(
        mut self,
        input: Option<mpsc::Receiver<Vec<u8>>>,
        signals: &mut Signals,
    ) -> Result<End, Failure> {
        // Input waits for the host, output for the terminal here; neither waits for the other.
        let (notices, mut noticed) = mpsc::channel(8);
        let feeding = feed(self.requests, input, &mut noticed);
        let mut feeding = std::pin::pin!(feeding);
        let mut printing = std::pin::pin!(print(self.responses, self.writer));
        let mut forwarded = false;
        loop {
            tokio::select! {
                ended = &mut printing => return ended,
                () = &mut feeding => {}
                () = self.expiry.warn() => {}
                number = signals.next() => match number {
                    // Where there is no room, one is under way that may be older: the next change tells again.
                    libc::SIGWINCH if self.tty => drop(notices.try_send(Asked::Resize(keyboard::window_size()))),
                    libc::SIGWINCH => {}
                    number if forwarded || number == libc::SIGHUP => return Ok(End::Left(number)),
                    number => {
                        forwarded = true;
                        // Where there is no room the host takes nothing: the next signal leaves.
                        drop(notices.try_send(Asked::Signal(number)));
                    }
                },
            }
        }
    }
}

/// Sends what is noticed and what is read. Never returns: the stream stays open until the session ends.
async fn feed(
    requests: mpsc::Sender<RunRequest>,
    mut input: Option<mpsc::Receiver<Vec<u8>>>,
    noticed: &mut mpsc::Receiver<Asked>,
) {
    loop {
        let request = tokio::select! {
            biased;
            Some(notice) = noticed.recv() => notice,
            bytes = async { match &mut input { Some(input) => input.recv().await, None => std::future::pending().await } } => {
                match bytes {
                    Some(bytes) => Asked::Input(bytes),
                    None => {
                        input = None;
                        Asked::InputEnd(kelson_proto::v1::RunInputEnd {})
                    }
                }
            }
        };
        if requests.send(asked(request)).await.is_err() {
            // The host listens no more; what it says of that comes the other way.
            return std::future::pending().await;
        }
    }
}

/// Prints what comes, up to how the command ended.
async fn print(mut responses: Streaming<RunResponse>, mut writer: Writer) -> Result<End, Failure> {
    while let Some(response) = responses.message().await? {
        writer.take(match response.response {
            Some(Answer::Output(bytes)) => Piece::Output(bytes),
            Some(Answer::Errors(bytes)) => Piece::Errors(bytes),
            Some(Answer::Exited(exited)) => return Ok(End::Exited(exited)),
            Some(Answer::Started(_)) | None => continue,
        });
        match writer.written().await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(End::Unread),
            Err(error) => return Err(Failure::Failed(format!("cannot write the output: {error}"))),
        }
    }
    Err(Failure::NotReachable("the host ended the stream before its command".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_byte() {
        assert_eq!((lowest_byte(7), lowest_byte(256)), (7, 0));
    }

    #[test]
    fn a_variable_has_a_name() {
        assert_eq!(variable("A=b=c"), Ok("A=b=c".to_owned()));
        assert_eq!(variable("A="), Ok("A=".to_owned()));
        assert!(variable("A").is_err() && variable("=b").is_err());
    }
}
