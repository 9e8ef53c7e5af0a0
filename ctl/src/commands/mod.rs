//! The commands, one file each. A command asks the host and hands what it heard to [`crate::output`].

pub mod acting;
mod awaiting;
pub mod boot;
pub mod cat;
pub mod cgroups;
pub mod clock;
pub mod complete;
pub mod completion;
pub mod config;
pub mod confirm;
pub mod cp;
pub mod cpu;
pub mod dashboard;
pub mod disks;
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
mod last_lines;
pub mod logs;
pub mod looking;
pub mod ls;
pub mod memory;
pub mod metrics;
pub mod mounts;
pub mod netstat;
pub mod poweroff;
pub mod processes;
pub mod read;
pub mod reboot;
pub mod reexec;
pub mod reload;
pub mod restart;
pub mod schema;
pub mod services;
pub mod signal;
pub mod start;
pub mod status;
pub mod stop;
pub mod support;
pub mod validate;
pub mod version;
pub mod wait;
pub mod why;

use std::rc::Rc;
use std::time::Duration;

use kelson_api::client::Client;
use serde::Serialize;

use crate::cli::{Command, Global};
use crate::contexts::{self, Choice, KELSONCONFIG};
use crate::failure::Failure;
use crate::follow::Reconnect;
use crate::nodes::Node;
use crate::output::page::Page;
use crate::output::screen::Screen;
use crate::output::terminal::{Progress, Terminal};
use crate::output::{Format, note_of, print};

/// One call of `kelsonctl`: where it goes and how its result is to look.
#[derive(Debug)]
pub struct Call {
    pub format: Format,
    /// What `-o` says, where it is given.
    pub chosen: Option<Format>,
    pub terminal: Terminal,
    pub choice: Choice,
    /// The host's name, where `-n` gives it one.
    pub node: Option<Node>,
    /// Where results go that are shown again and again.
    pub screen: Option<Rc<Screen>>,
}

impl Call {
    /// What the command line and the environment say.
    pub fn new(global: Global) -> Call {
        Call {
            format: global.output.unwrap_or_default(),
            chosen: global.output,
            terminal: Terminal { headers: !global.no_headers, ..Terminal::stdout() },
            choice: Choice {
                endpoint: global.endpoint,
                context: global.context,
                environment: std::env::var("KELSON_ENDPOINT").ok(),
                config: std::env::var_os(KELSONCONFIG).filter(|path| !path.is_empty()).map(Into::into),
                usual: contexts::usual_file(),
            },
            node: None,
            screen: None,
        }
    }

    /// A client of the host. The connection is made by the first question.
    pub fn client(&self) -> Result<Client, Failure> {
        self.choice.resolve()?.client()
    }

    /// True where the result is for people.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Shows the result as a whole: at once, or beside that of the other hosts once all have answered.
    pub fn show<V: Serialize>(
        &self,
        view: impl FnOnce() -> V,
        page: impl FnOnce() -> Page,
    ) -> Result<(), Failure> {
        match (&self.node, self.is_table()) {
            (None, true) => self.print(&page().render(&self.terminal))?,
            (None, false) => self.print(&self.format.document(&view())?)?,
            (Some(node), true) => node.keep_page(page()),
            (Some(node), false) => node.keep_view(&view())?,
        }
        Ok(())
    }

    /// Prints a result that is whole.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        match &self.screen {
            Some(screen) => screen.put(text),
            None => print(text)?,
        }
        Ok(())
    }

    /// One item of a stream, to be printed: a line for people, which `line` gives, or for programs.
    pub fn item<V: Serialize>(
        &self,
        view: impl FnOnce() -> V,
        line: impl FnOnce() -> String,
    ) -> Result<String, Failure> {
        match (&self.node, self.is_table()) {
            (None, true) => Ok(line()),
            (None, false) => self.format.item(&view()),
            (Some(node), true) => Ok(node.front(&self.terminal) + &line()),
            (Some(node), false) => node.item(self.format, &view()),
        }
    }

    /// The terminal as it is for a line of this host: the name of the host may stand in front.
    pub fn line_terminal(&self) -> Terminal {
        let front = self.node.as_ref().map_or(0, Node::front_width);
        Terminal { width: self.terminal.width.map(|columns| columns.saturating_sub(front)), ..self.terminal }
    }

    /// The name under which the host is told of, where there are several.
    pub fn node_name(&self) -> Option<&str> {
        self.node.as_ref().map(Node::name)
    }

    /// Says something beside the result.
    pub fn note(&self, text: &str) {
        note_of(self.node_name(), text);
    }

    /// Tells why the host failed.
    pub fn tell(&self, text: String) {
        match (&self.screen, self.node_name()) {
            (Some(screen), Some(node)) => screen.say(format!("{node}: {text}")),
            (Some(screen), None) => screen.say(text),
            (None, node) => note_of(node, &text),
        }
    }

    /// A line that shows what is awaited; several hosts would write over each other's.
    pub fn progress(&self) -> Progress {
        if self.node.is_some() { Progress::hidden() } else { Progress::new() }
    }

    /// For a stream that outlives its connection.
    pub fn reconnect(&self) -> Reconnect {
        Reconnect::new(self.node_name())
    }
}

/// True where it can be done on several hosts at once, and what they say be told side by side.
pub fn takes_several(command: &Command) -> bool {
    match command {
        Command::Boot(arguments) => !arguments.is_drawing(),
        Command::Events(arguments) => !arguments.is_drawing(),
        Command::Version(arguments) => arguments.asks_host(),
        Command::Services(_)
        | Command::Status(_)
        | Command::Start(_)
        | Command::Stop(_)
        | Command::Restart(_)
        | Command::Reload(_)
        | Command::Signal(_)
        | Command::Wait(_)
        | Command::Health(_)
        | Command::Why(_)
        | Command::Logs(_)
        | Command::Metrics(_)
        | Command::Dmesg(_)
        | Command::Images(_)
        | Command::Processes(_)
        | Command::Netstat(_)
        | Command::Mounts(_)
        | Command::Memory(_)
        | Command::Cpu(_)
        | Command::Disks(_)
        | Command::Cgroups(_)
        | Command::Time(_)
        | Command::Ls(_)
        | Command::Reboot(_)
        | Command::Poweroff(_)
        | Command::Halt(_)
        | Command::Reexec(_) => true,
        _ => false,
    }
}

/// How long it is until it is done again, where it is done again and again.
pub fn watched(command: &Command) -> Option<Duration> {
    match command {
        Command::Services(arguments) => arguments.watch,
        Command::Health(arguments) => arguments.watch,
        Command::Processes(arguments) => arguments.watching.watch,
        Command::Netstat(arguments) => arguments.watching.watch,
        Command::Mounts(arguments) => arguments.watching.watch,
        Command::Memory(arguments) => arguments.watching.watch,
        Command::Cpu(arguments) => arguments.watching.watch,
        Command::Cgroups(arguments) => arguments.watching.watch,
        _ => None,
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
        Command::Reload(arguments) => reload::run(call, arguments).await,
        Command::Signal(arguments) => signal::run(call, arguments).await,
        Command::Wait(arguments) => wait::run(call, arguments).await,
        Command::Why(arguments) => why::run(call, arguments).await,
        Command::Graph(arguments) => graph::run(call, arguments).await,
        Command::Exec(arguments) => exec::run(call, arguments).await,
        Command::Events(arguments) => events::run(call, arguments).await,
        Command::Dashboard(arguments) => dashboard::run(call, arguments).await,
        Command::Logs(arguments) => logs::run(call, arguments).await,
        Command::Metrics(arguments) => metrics::run(call, arguments).await,
        Command::Dmesg(arguments) => dmesg::run(call, arguments).await,
        Command::Boot(arguments) => boot::run(call, arguments).await,
        Command::Images(arguments) => images::run(call, arguments).await,
        Command::Processes(arguments) => processes::run(call, arguments).await,
        Command::Netstat(arguments) => netstat::run(call, arguments).await,
        Command::Mounts(arguments) => mounts::run(call, arguments).await,
        Command::Memory(arguments) => memory::run(call, arguments).await,
        Command::Cpu(arguments) => cpu::run(call, arguments).await,
        Command::Disks(arguments) => disks::run(call, arguments).await,
        Command::Cgroups(arguments) => cgroups::run(call, arguments).await,
        Command::Time(arguments) => clock::run(call, arguments).await,
        Command::Ls(arguments) => ls::run(call, arguments).await,
        Command::Read(arguments) => read::run(call, arguments).await,
        Command::Cat(arguments) => cat::run(call, arguments).await,
        Command::Cp(arguments) => cp::run(call, arguments).await,
        Command::Support(arguments) => support::run(call, arguments).await,
        Command::Reboot(arguments) => reboot::run(call, arguments).await,
        Command::Poweroff(arguments) => poweroff::run(call, arguments).await,
        Command::Health(arguments) => health::run(call, arguments).await,
        Command::Halt(arguments) => halt::run(call, arguments).await,
        Command::Reexec(arguments) => reexec::run(call, arguments).await,
        Command::Validate(arguments) => validate::run(call, arguments),
        Command::Schema(arguments) => schema::run(arguments),
        Command::Gen(arguments) => generate::run(call, arguments),
        Command::Config(arguments) => config::run(call, arguments),
        Command::Version(arguments) => version::run(call, arguments).await,
        Command::Completion(arguments) => completion::run(arguments),
        Command::Complete(arguments) => complete::run(arguments).await,
        Command::Man => crate::output::print(&crate::man::page(&crate::cli::command())),
    }
}
