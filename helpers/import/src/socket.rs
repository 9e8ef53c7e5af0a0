//! A socket unit, while its keys are read.

use kelson_load::Json;
use kelson_spec::service::{Listen, SocketSpec};

/// What its keys ask for so far.
#[derive(Debug, Clone, Default)]
pub struct Socket {
    /// In the form of the key `listen`.
    pub listen: Vec<String>,
    pub name: String,
    pub user: Option<String>,
    pub group: Option<String>,
    pub spec: SocketSpec,
    /// What runs before it is made.
    pub programs: Vec<String>,
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
            let misplaced: Vec<&str> = spec.misplaced(&listen).map(|(key, _)| key).collect();
            let flag = |is_set: bool| is_set.then_some(Json::Bool(true));
            let (backlog, mode, options) = (spec.backlog, spec.mode, spec.options);
            let entries = [
                ("name", Some(Json::text(&self.name))),
                ("listen", Some(Json::text(text))),
                ("backlog", (backlog != SocketSpec::BACKLOG).then(|| Json::Integer(backlog.into()))),
                ("mode", (mode != SocketSpec::MODE).then(|| Json::Text(format!("{mode:04o}")))),
                ("user", user.as_deref().filter(|_| spec.path().is_some()).map(Json::text)),
                ("ipv6Only", flag(options.ipv6_only)),
                ("reusePort", flag(options.reuse_port)),
                ("freeBind", flag(options.free_bind)),
                ("passCredentials", flag(options.pass_credentials)),
                ("keepAlive", flag(options.keep_alive)),
                ("nonBlocking", flag(options.non_blocking)),
                ("stdin", flag(options.stdin)),
            ];
            let fit = entries.into_iter().filter(|(key, _)| !misplaced.contains(key));
            let entries = fit.filter_map(|(key, value)| Some((key.to_owned(), value?)));
            Some(Json::Map(entries.collect()))
        };
        self.listen.iter().filter_map(one).collect()
    }
}

/// A name that a service file takes.
pub fn name(unit: &str) -> String {
    let letter = |letter: char| match letter {
        letter if SocketSpec::is_of_name(letter) => letter,
        _ => '-',
    };
    unit.chars().map(letter).take(SocketSpec::LONGEST_NAME).collect()
}
