//! `kelsonctl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kelsonctl::main()
}
