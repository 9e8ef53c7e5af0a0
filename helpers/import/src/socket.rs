//! A socket unit, while its keys are read.

use kelson_load::Json;
use kelson_spec::service::{Listen, SocketSpec};

/// The longest name of a socket that a service file takes.
const LONGEST_NAME: usize = 255;

/// What its keys ask for so far.
#[derive(Debug, Clone, Default)]
pub struct Socket {
    /// In the form of the key `listen`.
    pub listen: Vec<String>,
    pub name: String,
    pub user: Option<String>,
    pub group: Option<String>,
    pub spec: SocketSpec,
    /// Each connection would have an instance of its own.
    pub accepts: bool,
}

impl Socket {
    /// Its sockets in the form of a service file.
    pub fn written(&self) -> Vec<Json> {
        let user = match (&self.user, &self.group) {
            (Some(user), Some(group)) => Some(format!("{user}:{group}")),
            (Some(user), None) => Some(user.clone()),
            (None, Some(group)) => Some(format!("root:{group}")),
            (None, None) => None,
        };
        let one = |text: &String| {
            let listen = Listen::read(text).ok()?;
            let spec = SocketSpec { listen: text.clone(), ..self.spec.clone() };
            let (is_file, is_inet) = (spec.path().is_some(), listen.address().is_some());
            let takes = !matches!(listen, Listen::Udp(_) | Listen::Fifo(_));
            let flag = |is_set: bool, fits: bool| (is_set && fits).then_some(Json::Bool(true));
            let options = spec.options;
            let entries = [
                ("name", Some(Json::text(&self.name))),
                ("listen", Some(Json::text(text))),
                (
                    "backlog",
                    (takes && spec.backlog != SocketSpec::BACKLOG)
                        .then(|| Json::Integer(spec.backlog.into())),
                ),
                (
                    "mode",
                    (is_file && spec.mode != SocketSpec::MODE)
                        .then(|| Json::Text(format!("{:04o}", spec.mode))),
                ),
                ("user", user.as_deref().filter(|_| is_file).map(Json::text)),
                ("ipv6Only", flag(options.ipv6_only, listen.is_ipv6())),
                ("reusePort", flag(options.reuse_port, is_inet)),
                ("freeBind", flag(options.free_bind, is_inet)),
                ("passCredentials", flag(options.pass_credentials, matches!(listen, Listen::Unix(..)))),
            ];
            let entries = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Some(Json::Map(entries.collect()))
        };
        self.listen.iter().filter_map(one).collect()
    }
}

/// A name that a service file takes.
pub fn name(unit: &str) -> String {
    let letter = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "._@-".contains(letter) => letter,
        _ => '-',
    };
    unit.chars().map(letter).take(LONGEST_NAME).collect()
}
