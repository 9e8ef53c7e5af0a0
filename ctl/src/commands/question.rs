//! Asking back on a terminal, before something that is hard to take back.

use std::io::{IsTerminal as _, Write as _};

use crate::failure::Failure;
use crate::output::escape;

/// True where somebody sees the question and can answer it.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns once the answer is yes.
///
/// # Errors
/// It is anything else.
pub fn ask(question: &str) -> Result<(), Failure> {
    let mut stderr = std::io::stderr().lock();
    let shown = write!(stderr, "{} [y/N] ", escape(question)).and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = shown.and_then(|()| std::io::stdin().read_line(&mut answer));
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failure::Failed("nothing was done".to_owned())),
    }
}
