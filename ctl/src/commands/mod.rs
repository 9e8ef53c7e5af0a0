//! The commands, one file each. A command asks the host and hands what it heard to [`crate::output`].

mod acting;
pub mod boot;
pub mod complete;
pub mod completion;
pub mod config;
pub mod dmesg;
mod ending;
pub mod events;
pub mod exec;
#[cfg(feature = "faults")]
pub mod fault;
pub mod generate;
pub mod graph;
pub mod halt;
pub mod health;
pub mod images;
pub mod logs;
pub mod metrics;
pub mod poweroff;
pub mod reboot;
pub mod reexec;
pub mod restart;
pub mod services;
pub mod start;
pub mod status;
pub mod stop;
pub mod validate;
pub mod version;
pub mod wait;
pub mod why;

use kelson_api::client::Client;

use crate::cli::{Command, Global};
use crate::contexts::Choice;
use crate::failure::Failure;
use crate::output::Format;
use crate::output::terminal::Terminal;

/// One call of `kelsonctl`: where it goes and how its result is to look.
#[derive(Debug)]
pub struct Call {
    pub format: Format,
    /// What `-o` says, where it is given.
    pub chosen: Option<Format>,
    pub terminal: Terminal,
    pub choice: Choice,
}

impl Call {
    /// What the command line and the environment say.
    pub fn new(global: Global) -> Call {
        Call {
            format: global.output.unwrap_or_default(),
            chosen: global.output,
            terminal: Terminal::stdout(),
            choice: Choice {
                endpoint: global.endpoint,
                context: global.context,
                environment: std::env::var("KELSON_ENDPOINT").ok(),
                config: std::env::var_os("KELSONCONFIG").filter(|path| !path.is_empty()).map(Into::into),
            },
        }
    }

    /// A client of the host. The connection is made by the first question.
    pub fn client(&self) -> Result<Client, Failure> {
        let host = self.choice.resolve()?;
        Ok(Client::connect(&host.endpoint, host.tls.as_ref())?)
    }

    /// True where the result is for people.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }
}

/// Does what the command says.
pub async fn run(command: Command, call: &Call) -> Result<(), Failure> {
    match command {
        #[cfg(feature = "faults")]
        Command::Fault(arguments) => fault::run(call, arguments).await,
        Command::Services(arguments) => services::run(call, arguments).await,
        Command::Status(arguments) => status::run(call, arguments).await,
        Command::Start(arguments) => start::run(call, arguments).await,
        Command::Stop(arguments) => stop::run(call, arguments).await,
        Command::Restart(arguments) => restart::run(call, arguments).await,
        Command::Wait(arguments) => wait::run(call, arguments).await,
        Command::Why(arguments) => why::run(call, arguments).await,
        Command::Graph(arguments) => graph::run(call, arguments).await,
        Command::Exec(arguments) => exec::run(call, arguments).await,
        Command::Events(arguments) => events::run(call, arguments).await,
        Command::Logs(arguments) => logs::run(call, arguments).await,
        Command::Metrics(arguments) => metrics::run(call, arguments).await,
        Command::Dmesg(arguments) => dmesg::run(call, arguments).await,
        Command::Boot(arguments) => boot::run(call, arguments).await,
        Command::Images(arguments) => images::run(call, arguments).await,
        Command::Reboot(arguments) => reboot::run(call, arguments).await,
        Command::Poweroff(arguments) => poweroff::run(call, arguments).await,
        Command::Health(arguments) => health::run(call, arguments).await,
        Command::Halt(arguments) => halt::run(call, arguments).await,
        Command::Reexec(arguments) => reexec::run(call, arguments).await,
        Command::Validate(arguments) => validate::run(call, arguments),
        Command::Gen(arguments) => generate::run(call, arguments),
        Command::Config(arguments) => config::run(call, arguments),
        Command::Version(arguments) => version::run(call, arguments).await,
        Command::Completion(arguments) => completion::run(arguments),
        Command::Complete(arguments) => complete::run(arguments).await,
        Command::Man => crate::output::print(&crate::man::page(&crate::cli::command())),
    }
}
