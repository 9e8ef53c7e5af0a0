//! `man`: the manual page.

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::man::page;
use crate::output::print;

/// Print the manual page
#[derive(Debug, Clone, clap::Args)]
#[command(hide = true)]
pub struct Arguments {}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        print(&page(&(call.grammar)()))
    }
}
