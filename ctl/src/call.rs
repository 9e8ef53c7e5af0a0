//! One call of `kelsonctl`, and what a command is.

use std::rc::Rc;

use kelson_api::client::Client;

use crate::contexts::{self, Choice, KELSONCONFIG};
use crate::failure::Failure;
use crate::follow::Reconnect;
use crate::node::Node;
use crate::output::screen::Screen;
use crate::output::{Format, Page, Progress, Terminal, View, note_of, print};

/// A command of the command line: its arguments implement this.
pub trait Run: clap::Args {
    /// True where several hosts can be asked at once and their answers shown side by side.
    const SEVERAL: bool = true;

    /// The same for one command line.
    fn several(&self) -> bool {
        Self::SEVERAL
    }

    /// The verb of the question that is asked first, on a terminal, about hosts that are reached over the network.
    fn confirmed(&self) -> Option<&'static str> {
        None
    }

    /// Does it.
    async fn run(self, call: &Call) -> Result<(), Failure>;
}

/// The arguments that every command takes.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The host: HOST[:PORT], unix:///PATH, vsock://CID:PORT
    ///
    /// Without it, this host.
    #[arg(short, long, global = true, value_name = "E")]
    pub endpoint: Option<String>,
    /// Several hosts, with commas: contexts, HOST, HOST:PORT
    #[arg(short, long, global = true, value_name = "NODE", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// Form of the result
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Tables without the line of headings
    #[arg(long, global = true)]
    pub no_headers: bool,
    /// A context: a name of the file of contexts
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

/// One call of `kelsonctl`: where it goes and how its result is to look.
#[derive(Debug, Clone)]
pub struct Call {
    pub format: Format,
    /// The value of `-o`, where it is given.
    pub chosen: Option<Format>,
    pub terminal: Terminal,
    pub choice: Choice,
    /// The host's name, where `-n` gives it one.
    pub node: Option<Rc<Node>>,
    /// The tree of all commands, options and words.
    pub grammar: fn() -> clap::Command,
    /// Where results go that are shown again and again.
    pub screen: Option<Rc<Screen>>,
}

impl Call {
    /// Makes a call of the command line and the environment.
    pub fn new(global: Global, grammar: fn() -> clap::Command) -> Call {
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
            grammar,
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
    pub fn show(&self, value: &(impl View + ?Sized), page: impl FnOnce() -> Page) -> Result<(), Failure> {
        match (&self.node, self.is_table()) {
            (None, true) => self.print(&page().render(&self.terminal))?,
            (None, false) => self.print(&self.format.document(&value.view())?)?,
            (Some(node), true) => node.keep_page(page()),
            (Some(node), false) => node.keep_view(value.view()),
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
    pub fn item(&self, value: &impl View, line: impl FnOnce() -> String) -> Result<String, Failure> {
        match (&self.node, self.is_table()) {
            (None, true) => Ok(line()),
            (None, false) => self.format.item(&value.view()),
            (Some(node), true) => Ok(node.front(&self.terminal) + &line()),
            (Some(node), false) => node.item(self.format, value.view()),
        }
    }

    /// The terminal as it is for a line of this host: the name of the host may stand in front.
    pub fn line_terminal(&self) -> Terminal {
        let front = self.node.as_ref().map_or(0, |node| node.front_width());
        Terminal { width: self.terminal.width.map(|columns| columns.saturating_sub(front)), ..self.terminal }
    }

    /// The name shown for the host, if there are several.
    pub fn node_name(&self) -> Option<&str> {
        self.node.as_ref().map(|node| node.name())
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
