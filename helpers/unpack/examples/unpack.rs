//! `kelson-unpack` by hand: plays PID 1 for one piece of work, and the personality in a process of its own.
//!
//! `unpack SOCKET RUNTIME_DIR STATE_DIR IMAGES_DIR unpack IMAGE [USER]`, `… list` or `… prune|would-prune [KEEP…]`

use std::error::Error;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{NAME, News, REPORT_DESCRIPTOR, Unpacker, UnpackerOptions};

struct Itself;

impl Launcher for Itself {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let Ok(report) = start.take(CONTROL) else {
            return Box::pin(std::future::ready(Err(io::ErrorKind::InvalidInput.into())));
        };
        let arguments = start.arguments;
        Box::pin(async move {
            let mut command = Command::new("/proc/self/exe");
            command.arg0(NAME).args(arguments);
            let number = report.as_raw_fd();
            // SAFETY: one system call, that a child may make before its exec.
            unsafe {
                command.pre_exec(move || match libc::dup2(number, REPORT_DESCRIPTOR) {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                });
            }
            let mut child = command.spawn()?;
            let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
            drop(report);
            let exit = tokio::task::spawn_blocking(move || match child.wait() {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            });
            Ok(Launched {
                pid,
                start_time: 0,
                exit: Box::pin(async move { exit.await.unwrap_or_default() }),
                kill: Box::new(move || {
                    // SAFETY: a system call on numbers.
                    let _ = unsafe { libc::kill(pid, libc::SIGKILL) };
                }),
            })
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os();
    if words.next().is_some_and(|name| name == NAME) {
        std::process::exit(kelson_unpack::main(words));
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, runtime, state, images, work, rest @ ..] = words.as_slice() else {
        return Err("SOCKET RUNTIME_DIR STATE_DIR IMAGES_DIR unpack|list|prune|would-prune …".into());
    };
    let options = UnpackerOptions {
        images: vec![images.into()],
        containerd_socket: socket.into(),
        runtime_dir: runtime.into(),
        state_dir: state.into(),
    };
    let unpacker = Unpacker::new(Arc::new(Itself), options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match (work.as_str(), rest) {
            ("unpack", [image, user @ ..]) => {
                let tell = |news: News| eprintln!("{news:?}");
                println!("{:#?}", unpacker.unpack(image, user.first().map(String::as_str), tell).await?);
            }
            ("list", _) => println!("{:#?}", unpacker.list().await?),
            ("prune", keep) => println!("{:#?}", unpacker.prune(keep.to_vec(), false).await?),
            ("would-prune", keep) => println!("{:#?}", unpacker.prune(keep.to_vec(), true).await?),
            _ => return Err(format!("{work} is not known").into()),
        }
        Ok(())
    })
}
