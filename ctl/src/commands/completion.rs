//! `completion`: the script by which a shell completes the words of `kelsonctl`.
//!
//! The scripts know nothing of commands and options: they ask `kelsonctl complete` each time, so names of services are
//! those that the host has now.

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::print;

/// Print the completion script of a shell
///
/// Examples:
///   kelsonctl completion bash > /etc/bash_completion.d/kelsonctl
///   kelsonctl completion zsh > /usr/share/zsh/site-functions/_kelsonctl
///   kelsonctl completion fish > ~/.config/fish/completions/kelsonctl.fish
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, _: &Call) -> Result<(), Failure> {
        print(match self.shell {
            Shell::Bash => include_str!("completion/kelsonctl.bash"),
            Shell::Zsh => include_str!("completion/kelsonctl.zsh"),
            Shell::Fish => include_str!("completion/kelsonctl.fish"),
        })
    }
}
