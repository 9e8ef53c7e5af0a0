//! One command and its caller: bytes both ways, as fast as the slower of the two takes them.
//!
//! Nothing is collected. Output is read only when there is a place for it among the responses, and that is
//! free when the client has read; input is taken from the stream only when the command has read what came
//! before. A session that ends before the command (the client went away or made a mistake, PID 1 ends) kills
//! the command.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::run_request::Request as Asked;
use kelson_proto::v1::run_response::Response;
use kelson_services::exec::{BoxFuture, ExecControl, Executing, Exit, WindowSize};
use kelson_sys::descriptor::Watched;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use tokio::io::Interest;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};

/// Most bytes of one response.
const CHUNK: usize = 32 * 1024;
/// Most bytes of input in one request.
const INPUT_MAX: usize = 64 * 1024;
/// After the command's end what it wrote is still there, also behind something that it left running and that keeps its
/// output open. That may be silent for this long, and write this much more (a pipe never holds more), before it is left
/// alone.
const SILENCE: Duration = Duration::from_secs(1);
const LAST_WORDS: usize = 1 << 20;
/// For the last words to a client that does not read.
const PARTING: Duration = Duration::from_secs(1);
/// The byte that keyboards send for the end of the input.
const END_OF_TRANSMISSION: u8 = 4;
/// The signals that may be sent to a command.
const SIGNALS: [i32; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGKILL,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

type Responses = mpsc::Sender<Result<v1::RunResponse, Status>>;

/// A command that runs, and the way to its caller.
pub struct Session {
    pid: i32,
    exit: BoxFuture<'static, Exit>,
    control: Arc<dyn ExecControl>,
    input: Input,
    output: Watched<OwnedFd>,
    errors: Option<Watched<OwnedFd>>,
    responses: Responses,
    _killer: Killer,
}

/// Kills the command when it is dropped; one that has ended is not touched.
struct Killer(Arc<dyn ExecControl>);

impl Drop for Killer {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The command's input.
enum Input {
    /// None was asked for.
    None,
    Pipe(Watched<OwnedFd>),
    Terminal(Watched<OwnedFd>),
    /// No more is to come, or the command has closed it.
    Ended,
}

impl Session {
    /// # Errors
    /// When the kernel has no room to wait for one descriptor more; the command is killed then.
    pub fn new(executing: Executing, on_terminal: bool, responses: Responses) -> io::Result<Session> {
        let Executing { pid, input, output, errors, exit, control } = executing;
        let killer = Killer(Arc::clone(&control));
        let input = match input {
            None => Input::None,
            Some(input) => {
                let input = watched(input, Interest::WRITABLE)?;
                if on_terminal { Input::Terminal(input) } else { Input::Pipe(input) }
            }
        };
        let output = watched(output, Interest::READABLE)?;
        let errors = errors.map(|errors| watched(errors, Interest::READABLE)).transpose()?;
        Ok(Session { pid, exit, control, input, output, errors, responses, _killer: killer })
    }

    /// Until the caller has received the end of the command, or the session ends before: how, for the audit.
    pub async fn serve(self, requests: Streaming<v1::RunRequest>, mut closed: watch::Receiver<()>) -> String {
        let Session { pid, exit, control, input, output, errors, responses, _killer } = self;
        let status = tokio::select! {
            ended = tell(pid, output, errors, exit, &responses) => return ended,
            mistake = feed(requests, input, &*control) => mistake,
            () = responses.closed() => return "killed: its caller went away".to_owned(),
            _ = closed.changed() => Status::unavailable("PID 1 is ending"),
        };
        control.kill();
        let ended = format!("killed: {}", status.message());
        // A client that does not read it is gone.
        let _ = tokio::time::timeout(PARTING, responses.send(Err(status))).await;
        ended
    }
}

/// The size of a window. A number that no terminal has becomes the largest that one may have.
pub fn window_size(size: v1::WindowSize) -> WindowSize {
    let most = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    WindowSize { rows: most(size.rows), columns: most(size.columns) }
}

/// A descriptor whose readiness is waited for. It must never make this process wait, wherever it comes from.
fn watched(fd: OwnedFd, interest: Interest) -> io::Result<Watched<OwnedFd>> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Watched::new(fd, interest)
}

fn response(response: Response) -> Result<v1::RunResponse, Status> {
    Ok(v1::RunResponse { response: Some(response) })
}

/// That it runs, what it writes, and how it ended, which is returned in words. A caller that has gone is no matter: the
/// session ends then.
async fn tell(
    pid: i32,
    output: Watched<OwnedFd>,
    errors: Option<Watched<OwnedFd>>,
    mut exit: BoxFuture<'static, Exit>,
    responses: &Responses,
) -> String {
    let _ = responses.send(response(Response::Started(v1::RunStarted { pid }))).await;
    let (ended, ending) = watch::channel(false);
    let errors = async {
        if let Some(errors) = errors {
            pump(errors, Response::Errors, responses, ending.clone()).await;
        }
    };
    let pumps = async { tokio::join!(pump(output, Response::Output, responses, ending.clone()), errors) };
    let mut pumps = std::pin::pin!(pumps);
    let (exit, drained) = tokio::select! {
        biased;
        exit = &mut exit => (exit, false),
        _ = &mut pumps => ((&mut exit).await, true),
    };
    ended.send_replace(true);
    if !drained {
        pumps.await;
    }
    let (status, signal) = match exit {
        Exit::Status(status) => (Some(status), None),
        Exit::Signal { signal, .. } => (None, Some(signal)),
        Exit::Lost => (None, None),
    };
    let _ = responses.send(response(Response::Exited(v1::RunExited { status, signal }))).await;
    match (status, signal) {
        (Some(status), _) => format!("exited with status {status}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "its exit status was lost".to_owned(),
    }
}

/// Passes on what comes from a descriptor until its end; after the command's, what is there already.
async fn pump(
    from: Watched<OwnedFd>,
    wrap: fn(Vec<u8>) -> Response,
    responses: &Responses,
    mut ended: watch::Receiver<bool>,
) {
    let mut last_words = LAST_WORDS;
    loop {
        // First a place for it, then the bytes: what a client does not read stays where it is.
        let Ok(place) = responses.reserve().await else { return };
        let bytes = tokio::select! {
            biased;
            bytes = read(&from) => bytes,
            () = silence(&mut ended) => return,
        };
        if bytes.is_empty() || last_words == 0 {
            return;
        }
        if *ended.borrow() {
            last_words = last_words.saturating_sub(bytes.len());
        }
        place.send(response(wrap(bytes)));
    }
}

/// Returns when the command has ended and nothing more has come for a while.
async fn silence(ended: &mut watch::Receiver<bool>) {
    // Its sender stays as long as the pumps.
    let _ = ended.wait_for(|ended| *ended).await;
    tokio::time::sleep(SILENCE).await;
}

/// Reads the bytes that are there, at least one; empty at the end. A terminal that nobody has open any more
/// ends with EIO.
async fn read(from: &Watched<OwnedFd>) -> Vec<u8> {
    loop {
        let Ok(mut ready) = from.readable().await else { return Vec::new() };
        let mut bytes = vec![0; CHUNK];
        match ready.try_io(|from| Ok(nix::unistd::read(from.get_ref(), &mut bytes)?)) {
            Ok(Ok(count)) => {
                bytes.truncate(count);
                bytes.shrink_to_fit();
                return bytes;
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(_)) => return Vec::new(),
            Err(_would_wait) => {}
        }
    }
}

/// Carries out the caller's requests. Returns only when it is at fault or gone: one that sends no more may still
/// listen.
async fn feed(
    mut requests: Streaming<v1::RunRequest>,
    mut input: Input,
    control: &dyn ExecControl,
) -> Status {
    loop {
        let asked = match requests.message().await {
            Ok(Some(request)) => request.request,
            Ok(None) => {
                input.end().await;
                return std::future::pending().await;
            }
            Err(status) => return status,
        };
        match asked {
            Some(Asked::Input(bytes)) if bytes.len() > INPUT_MAX => {
                return Status::invalid_argument(format!(
                    "input comes in pieces of at most {INPUT_MAX} bytes"
                ));
            }
            Some(Asked::Input(bytes)) => {
                if matches!(input, Input::None) {
                    return Status::invalid_argument("`start` did not say that input will follow");
                }
                input.write(&bytes).await;
            }
            Some(Asked::InputEnd(_)) => input.end().await,
            Some(Asked::Resize(size)) => control.resize(window_size(size)),
            Some(Asked::Signal(signal)) if SIGNALS.contains(&signal) => control.signal(signal),
            Some(Asked::Signal(signal)) => {
                return Status::invalid_argument(format!("signal {signal} is none that is sent to commands"));
            }
            Some(Asked::Start(_)) => return Status::invalid_argument("`start` comes once"),
            None => return Status::invalid_argument("a request of a kind that this Kelson does not know"),
        }
    }
}

impl Input {
    /// Waits until the command has taken all; what it does not want to read any more is dropped.
    async fn write(&mut self, bytes: &[u8]) {
        let written = match self {
            Input::Pipe(to) | Input::Terminal(to) => write_all(to, bytes).await,
            Input::None | Input::Ended => Ok(()),
        };
        if written.is_err() {
            *self = Input::Ended;
        }
    }

    /// A pipe is closed; on a terminal the end is typed, as it stays open for the output.
    async fn end(&mut self) {
        if matches!(self, Input::Terminal(_)) {
            self.write(&[END_OF_TRANSMISSION]).await;
        }
        *self = Input::Ended;
    }
}

async fn write_all(to: &Watched<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = to.writable().await?;
        // SIGPIPE is blocked or ignored in PID 1: the error is all that comes.
        match ready.try_io(|to| Ok(nix::unistd::write(to.get_ref(), bytes)?)) {
            Ok(Ok(count)) => bytes = bytes.get(count..).unwrap_or_default(),
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_wait) => {}
        }
    }
    Ok(())
}
