//! Whether the kernel was started with an argument. Its command line stays the same until the next boot.

use std::fs;

use kelson_sys::command_line;

use crate::condition::{BoxFuture, Condition, Level};
use crate::missing::{Missing, Subject};

/// Holds where the kernel's command line has one argument.
pub struct KernelArgumentCondition {
    argument: String,
    given: bool,
}

impl KernelArgumentCondition {
    /// `argument` is `NAME`, with any value or none, or `NAME=VALUE`.
    pub fn new(argument: &str) -> KernelArgumentCondition {
        // The kernel has it in memory.
        let line = fs::read(command_line::PATH).unwrap_or_default();
        let given = is_given(&String::from_utf8_lossy(&line), argument);
        KernelArgumentCondition { argument: argument.to_owned(), given }
    }
}

fn is_given(line: &str, argument: &str) -> bool {
    command_line::split(line).iter().any(|word| match word.split_once('=') {
        Some((name, _)) if name == argument => true,
        _ => word == argument,
    })
}

impl Condition for KernelArgumentCondition {
    fn level(&self) -> Level {
        self.given.into()
    }

    fn missing(&self) -> Vec<Missing> {
        if self.given { Vec::new() } else { vec![Subject::KernelArgument(self.argument.clone()).into()] }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_given_by_its_name_or_with_its_value() {
        let line = "BOOT_IMAGE=/vmlinuz quiet console=tty0 console=ttyS0,115200 kelson.note=\"a b\" empty=\n";
        for argument in
            ["quiet", "console", "console=tty0", "console=ttyS0,115200", "kelson.note=a b", "empty", "empty="]
        {
            assert!(is_given(line, argument), "{argument}");
        }
        for argument in ["qui", "quiet=", "console=", "console=ttyS0", "b", "a b", "/vmlinuz"] {
            assert!(!is_given(line, argument), "{argument}");
        }
    }

    #[test]
    fn what_is_not_given_is_named() {
        let condition = KernelArgumentCondition::new("kelson.never=given");
        assert_eq!(condition.level(), Level::DoesNotHold);
        assert_eq!(condition.missing(), [Subject::KernelArgument("kelson.never=given".to_owned()).into()]);
        let line = fs::read_to_string(command_line::PATH).expect("proc is mounted");
        let first = command_line::split(&line).into_iter().next().expect("a boot loader gives some");
        assert!(KernelArgumentCondition::new(&first).holds(), "{first}");
    }
}
