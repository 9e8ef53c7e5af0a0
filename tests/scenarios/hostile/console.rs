//! Nobody reads what PID 1 says: it never waits for that, and what could not be said is counted.

use kelson_tests::{Host, PATIENCE, until};

use super::Fault;

pub const FAULT: Fault = Fault {
    name: "unread-console",
    host: |builder| builder.console_unread().runs_with("own-talk", "serve", "start: manual"),
    inject: let_it_run_over,
};

fn let_it_run_over(host: &Host) {
    host.take_console();
    // Each time four lines of forty bytes, and the pipe holds a page.
    for _ in 0..40 {
        host.ctl(&["restart", "own-talk", "--wait"]).ok();
    }
    let said = host.take_console();
    assert!(said.len() > 3000 && said.len() <= 4096, "a page, and then no more: {}", said.len());
    let text = until("the loss to be told", PATIENCE, || {
        host.ctl(&["restart", "own-talk", "--wait"]).ok();
        Some(host.take_console()).filter(|text| text.contains(" lines of this log were lost"))
    });
    assert!(text.contains("own-talk: "), "it goes on: {text}");
}
