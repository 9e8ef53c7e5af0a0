//! The YAML parser, whose panic costs one file.
//!
//! The parser is not ours: should it panic on a file, the others must still be read. The release programs do not unwind,
//! so there is nothing to catch. The work runs on a thread; when the parser panics there, that thread reports the text
//! and then stays until the process ends, which is soon. Another thread does the work again without that text.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::panic;
use std::rc::Rc;
use std::sync::Once;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::tree::{self, Mistake, Node};

thread_local! {
    static GUARD: RefCell<Option<Guard>> = const { RefCell::new(None) };
}

/// Of a thread that does guarded work.
struct Guard {
    /// Texts on which the parser panicked before.
    broken: Vec<String>,
    parsing: Option<String>,
    failed: Sender<String>,
}

/// Reads a text. `None`: the parser panicked on it.
pub fn parse(text: &str) -> Option<(Option<Rc<Node>>, Vec<Mistake>)> {
    let is_broken = GUARD.with_borrow_mut(|guard| {
        guard.as_mut().is_some_and(|guard| {
            guard.parsing = Some(text.to_owned());
            guard.broken.iter().any(|broken| broken == text)
        })
    });
    if is_broken {
        return None;
    }
    let tree = tree::parse(text);
    GUARD.with_borrow_mut(|guard| {
        if let Some(guard) = guard {
            guard.parsing = None;
        }
    });
    Some(tree)
}

/// Does work that parses texts, again for each text on which the parser panics. A panic of the work itself stays one.
pub fn guarded<T: Send + 'static>(work: impl Fn() -> T + Clone + Send + 'static) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let guard = GUARD.try_with(RefCell::take).ok().flatten();
            let Some(Guard { parsing: Some(text), failed, .. }) = guard else { return report(panicked) };
            // With RUST_BACKTRACE the usual report would end a program that has no tables for the unwinder.
            let _ = writeln!(io::stderr(), "the YAML parser {panicked}");
            let _ = failed.send(text);
            // Where panics unwind, the thread ends by itself.
            while cfg!(panic = "abort") {
                thread::park();
            }
        }));
    });
    let mut broken = Vec::new();
    loop {
        let (failed, failures) = channel();
        let guard = Guard { broken: broken.clone(), parsing: None, failed };
        let this = work.clone();
        let thread = thread::Builder::new().name("yaml".to_owned()).spawn(move || {
            GUARD.set(Some(guard));
            this()
        });
        // Without a thread to spare a panic costs the process.
        let Ok(thread) = thread else { return work() };
        match failures.recv() {
            Ok(text) => broken.push(text),
            Err(_) => return thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_its_own_text_alone() {
        let read = || {
            ["a: b", "c: d", "e: f"].map(|text| {
                let tree = parse(text);
                // Behaves as the parser would.
                if tree.is_some() && text != "c: d" {
                    GUARD.with_borrow_mut(|guard| guard.as_mut().unwrap().parsing = Some(text.to_owned()));
                    panic!("a fault of the parser");
                }
                tree.is_some()
            })
        };
        assert_eq!(guarded(read), [false, true, false]);
    }

    #[test]
    #[should_panic(expected = "a fault of ours")]
    fn a_panic_of_the_work_is_one_of_the_caller() {
        guarded(|| {
            parse("a: b").unwrap();
            panic!("a fault of ours")
        });
    }
}
