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

const BASH: &str = r#"# bash completion of kelsonctl
_kelsonctl() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(kelsonctl complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _kelsonctl kelsonctl
"#;

const ZSH: &str = r#"#compdef kelsonctl
# zsh completion of kelsonctl
_kelsonctl() {
    local line
    local -a found
    while IFS= read -r line; do
        found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(kelsonctl complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe kelsonctl found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_kelsonctl" ]; then
    _kelsonctl "$@"
else
    compdef _kelsonctl kelsonctl
fi
"#;

const FISH: &str = r#"# fish completion of kelsonctl
function __kelsonctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (kelsonctl complete -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c kelsonctl -f -a '(__kelsonctl_complete)'
"#;

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, _: &Call) -> Result<(), Failure> {
        print(match self.shell {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
        })
    }
}
