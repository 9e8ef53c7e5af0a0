//! A command that is done again and again: `--watch`.
//!
//! Each time is a call of its own, so that a host that was gone is there again as soon as it is. It goes on until it is
//! interrupted; only what fails the first time, with nothing to show, ends at once.

use std::rc::Rc;
use std::time::Duration;

use crate::call::Call;
use crate::commands::Command;
use crate::failure::Failure;
use crate::nodes;
use crate::output::Terminal;
use crate::output::screen::Screen;

/// Does what the command says, once or again and again.
pub async fn run(
    command: Command,
    period: Option<Duration>,
    call: Call,
    names: &[String],
) -> Result<(), Failure> {
    let Some(period) = period else {
        return nodes::run(command, call, names).await;
    };
    let screen = Rc::new(Screen::new(call.format));
    let mut first = true;
    loop {
        // The terminal may have another size by now.
        let terminal = Terminal { headers: call.terminal.headers, ..Terminal::stdout() };
        let again = Call { terminal, screen: Some(Rc::clone(&screen)), ..call.clone() };
        if let Err(failure) = nodes::run(command.clone(), again, names).await {
            if first && screen.is_empty() {
                screen.tell();
                return Err(failure);
            }
            if let Some(said) = failure.unsaid() {
                screen.say(said);
            }
        }
        screen.show(&terminal)?;
        first = false;
        tokio::time::sleep(period).await;
    }
}
