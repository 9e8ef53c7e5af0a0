//! The demo's web application: tells each visitor how many there were, which redis counts.
//!
//! `kelson-demo-web` serves, `kelson-demo-web check` asks the one that serves whether it is well, for a health check:
//! its image holds nothing else that could. `LISTEN` and `REDIS` name other addresses than the usual ones.

mod http;
mod redis;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use http::Answer;

/// Nobody keeps a worker longer than this with one read or write.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many visitors are served side by side; the others wait in the queue of the kernel.
const WORKERS: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = addresses().and_then(|(listen, redis)| match words.as_slice() {
        [] => serve(listen, redis),
        ["check"] => check(listen),
        _ => Err("usage: kelson-demo-web [check]".to_owned()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kelson-demo-web: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where to listen, and where redis is.
fn addresses() -> Result<(SocketAddr, SocketAddr), String> {
    let address = |name, usual: &str| {
        let text = std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        text.parse()
            .map_err(|_| format!("{name} is {text:?}; an address and a port, such as {usual}, are needed"))
    };
    Ok((address("LISTEN", "127.0.0.1:8000")?, address("REDIS", "127.0.0.1:6379")?))
}

fn serve(listen: SocketAddr, redis: SocketAddr) -> Result<(), String> {
    end_at_sigterm();
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    println!("listening on {listen}, counting in redis at {redis}");
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    match listener.accept() {
                        Ok((visitor, _)) => attend(visitor, redis),
                        // Out of descriptors, or a visitor who left: neither may end the worker, nor make it spin.
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            });
        }
    });
    Ok(())
}

/// Answers one request. A visitor who leaves half way is nobody's loss.
fn attend(mut visitor: TcpStream, redis: SocketAddr) {
    let bounded =
        visitor.set_read_timeout(Some(TIMEOUT)).and_then(|()| visitor.set_write_timeout(Some(TIMEOUT)));
    if bounded.is_err() {
        return;
    }
    let answer = match http::read_path(&mut visitor) {
        Ok(path) => match path.as_str() {
            "/" => greet(redis),
            "/healthz" => Answer::good("ok\n"),
            _ => Answer::bad(404, "there is / and /healthz\n"),
        },
        Err(error) => Answer::bad(400, &format!("{error}\n")),
    };
    let _ = answer.write(&mut visitor);
}

/// The text that the one-shot wrote into redis, and the number of this visit.
fn greet(address: SocketAddr) -> Answer {
    let asked = redis::Connection::open(address, TIMEOUT).and_then(|mut redis| {
        let visits = redis.ask(&["INCR", "visits"])?;
        let greeting = redis.ask(&["GET", "greeting"])?;
        Ok((greeting, visits))
    });
    if let Ok((_, Some(visits))) = &asked {
        // For the log; that it cannot be written is no reason to turn a visitor away.
        let _ = writeln!(std::io::stdout(), "visit {visits}");
    }
    match asked {
        Ok((Some(greeting), Some(visits))) => Answer::good(&format!("{greeting}\nvisits: {visits}\n")),
        Ok((None, Some(visits))) => Answer::good(&format!("visits: {visits}\n")),
        Ok((_, None)) => Answer::bad(503, "redis counted, but told no number\n"),
        Err(error) => {
            eprintln!("redis at {address}: {error}");
            Answer::bad(503, &format!("redis at {address}: {error}\n"))
        }
    }
}

fn check(address: SocketAddr) -> Result<(), String> {
    let answer = http::get(address, "/healthz", TIMEOUT).map_err(|error| format!("{address}: {error}"))?;
    if answer.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(format!("{address} answers {:?}", answer.lines().next().unwrap_or_default()))
}

/// The first process of a container is sent no signal that it does not handle, so SIGTERM has to be.
fn end_at_sigterm() {
    extern "C" fn end(_signal: libc::c_int) {
        // SAFETY: _exit(2) may be called in a signal handler.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: the handler does nothing that a handler may not do.
    unsafe { libc::signal(libc::SIGTERM, end as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}
