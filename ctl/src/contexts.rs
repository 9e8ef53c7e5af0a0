//! Where the host is: from the command line, the environment and the file of contexts, which is the one that KELSONCONFIG
//! names, or `~/.config/kelson/config`.
//!
//! ```yaml
//! current: edge-1
//! contexts:
//!   edge-1:
//!     endpoint: 192.0.2.7:50000
//!     ca: ca.pem                # a path, relative to this file, or the PEM text itself
//!     certificate: admin.pem
//!     key: admin.key
//! ```

mod file;

use std::path::{Path, PathBuf};

use kelson_api::client::{Client, Endpoint, Remote, TlsMaterial, look_up};

use crate::failure::Failure;
pub use file::{Context, File, folder_of};

/// The socket of PID 1 on the host itself.
pub const DEFAULT: &str = "unix:///run/kelson/init.sock";

/// The variable that names the file of contexts.
pub const KELSONCONFIG: &str = "KELSONCONFIG";

/// The name of the file in messages where the command line does not name it.
pub const WORD: &str = "contexts";

/// The file of contexts where KELSONCONFIG names none: `kelson/config` in XDG_CONFIG_HOME or `~/.config`.
pub fn usual_file() -> Option<PathBuf> {
    // Relative paths mean nothing there.
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(folder.join("kelson/config"))
}

/// Where the host is, and what is needed to reach it.
#[derive(Debug, Clone)]
pub struct Host {
    pub endpoint: Endpoint,
    /// Only for one that is reached over the network.
    pub tls: Option<TlsMaterial>,
}

impl Host {
    /// A client of the host. The connection is made by the first question.
    pub fn client(&self) -> Result<Client, Failure> {
        let remote = self.tls.as_ref().map(|material| Remote { material, look_up });
        Ok(Client::connect(&self.endpoint, remote)?)
    }
}

/// The choice of a host on the command line and in the environment.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// `--endpoint`.
    pub endpoint: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// KELSON_ENDPOINT.
    pub environment: Option<String>,
    /// KELSONCONFIG.
    pub config: Option<PathBuf>,
    /// The file that is read where KELSONCONFIG is not set, if it is there.
    pub usual: Option<PathBuf>,
}

impl Choice {
    /// The endpoint to call: `--endpoint`, then `--context`, then KELSON_ENDPOINT, then the current context of
    /// the file of contexts, then the socket of this host. An endpoint `host:port` that is given by itself takes its certificates
    /// from the context that is named or current.
    pub fn resolve(&self) -> Result<Host, Failure> {
        let given = match (&self.endpoint, &self.context) {
            (Some(endpoint), _) => Some(endpoint),
            (None, Some(_)) => None,
            (None, None) => self.environment.as_ref().filter(|text| !text.is_empty()),
        };
        let (endpoint, context) = match given {
            Some(text) => (parse(text)?, None),
            None if self.context.is_none() && self.path().is_none() => (parse(DEFAULT)?, None),
            None => {
                let context = self.context("contexts")?;
                (parse(&context.endpoint)?, Some(context))
            }
        };
        let tls = match (&endpoint, context) {
            (Endpoint::Unix(_) | Endpoint::Vsock { .. }, _) => None,
            (Endpoint::Remote { .. }, Some(context)) => Some(context.material(self.file()?)?),
            (Endpoint::Remote { .. }, None) => Some(self.context("certificates")?.material(self.file()?)?),
        };
        Ok(Host { endpoint, tls })
    }

    /// The machine that a new context is for.
    ///
    /// # Errors
    /// The command line does not name it, or wrongly.
    pub fn machine(&self) -> Result<Endpoint, Failure> {
        let missing = "give the machine that the context is for: --endpoint HOST:PORT";
        parse(self.endpoint.as_deref().ok_or_else(|| Failure::Usage(missing.to_owned()))?)
    }

    /// The names of the contexts, each with its endpoint, for completion.
    pub fn names(&self) -> Vec<(String, String)> {
        let contexts = self.read().ok().flatten().map(|file| file.contexts).unwrap_or_default();
        contexts.into_iter().map(|(name, context)| (name, context.endpoint)).collect()
    }

    /// The names of the contexts; none where there is no file of them.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong.
    pub fn known(&self) -> Result<Vec<String>, Failure> {
        Ok(self.read()?.map_or_else(Vec::new, |file| file.contexts.into_keys().collect()))
    }

    fn read(&self) -> Result<Option<File>, Failure> {
        self.path().map(|path| File::read(path, WORD)).transpose()
    }

    /// The file of contexts.
    fn path(&self) -> Option<&Path> {
        let usual = || self.usual.as_deref().filter(|path| path.symlink_metadata().is_ok());
        self.config.as_deref().or_else(usual)
    }

    fn file(&self) -> Result<&Path, Failure> {
        self.path().ok_or_else(|| no_file("contexts"))
    }

    fn context(&self, what: &str) -> Result<Context, Failure> {
        let path = self.path().ok_or_else(|| no_file(what))?;
        let mut file = File::read(path, WORD)?;
        let (name, by) = match (&self.context, &file.current) {
            (Some(name), _) => (name, "--context"),
            (None, Some(name)) => (name, "current:"),
            (None, None) => {
                return Err(Failure::Usage(format!(
                    "{} names no current context; give --context NAME (there are: {})",
                    path.display(),
                    file.names()
                )));
            }
        };
        let name = name.clone();
        file.contexts.remove(&name).ok_or_else(|| file.unknown(path, &name, by))
    }
}

fn no_file(what: &str) -> Failure {
    Failure::Usage(format!(
        "a host that is reached over the network needs {what}: set KELSONCONFIG to a file of contexts (endpoint, ca, \
         certificate, key), or have it in ~/.config/kelson/config"
    ))
}

/// Reads an endpoint.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str) -> Result<Endpoint, Failure> {
    // A path alone can only mean a socket.
    let text = if text.starts_with('/') { format!("unix:{text}") } else { text.to_owned() };
    text.parse().map_err(|error: kelson_api::client::EndpointError| Failure::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Folder;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    /// A folder with this file of contexts, and the certificates that it may name.
    fn folder(config: &str) -> Folder {
        Folder::with([("config", config), ("ca.pem", PEM), ("admin.pem", PEM), ("admin.key", PEM)])
    }

    fn choice(folder: &Folder) -> Choice {
        Choice { config: Some(folder.join("config")), ..Choice::default() }
    }

    const TWO: &str = "current: edge\n\
        contexts:\n\
        \x20 edge: {endpoint: '192.0.2.7:50000', ca: ca.pem, certificate: admin.pem, key: admin.key}\n\
        \x20 here: {endpoint: 'unix:///tmp/k.sock'}\n";

    fn shown(result: Result<Host, Failure>) -> String {
        match result {
            Ok(host) => host.endpoint.to_string(),
            Err(failure) => {
                assert_eq!(failure.exit_status(), 2);
                failure.to_string()
            }
        }
    }

    #[test]
    fn the_nearest_word_wins() {
        let folder = folder(TWO);
        assert_eq!(shown(Choice::default().resolve()), DEFAULT);
        let mut choice = choice(&folder);
        assert_eq!(shown(choice.resolve()), "192.0.2.7:50000");
        choice.environment = Some("unix:///tmp/env.sock".to_owned());
        assert_eq!(shown(choice.resolve()), "unix:///tmp/env.sock");
        choice.context = Some("here".to_owned());
        assert_eq!(shown(choice.resolve()), "unix:///tmp/k.sock");
        choice.endpoint = Some("/tmp/flag.sock".to_owned());
        assert_eq!(shown(choice.resolve()), "unix:///tmp/flag.sock");
    }

    #[test]
    fn the_usual_file_is_read_where_it_is_there_and_no_other_is_named() {
        let folder = folder(TWO);
        let usual = |name: &str| Choice { usual: Some(folder.join(name)), ..Choice::default() };
        assert_eq!(shown(usual("config").resolve()), "192.0.2.7:50000");
        assert_eq!(shown(usual("gone").resolve()), DEFAULT);
        let named = Choice { config: Some("/nowhere/config".into()), ..usual("config") };
        assert!(shown(named.resolve()).contains("cannot read /nowhere/config"));
    }

    #[test]
    fn an_address_alone_takes_the_certificates_of_the_context() {
        let folder = folder(TWO);
        let choice = Choice { endpoint: Some("127.0.0.1:5001".to_owned()), ..choice(&folder) };
        let host = choice.resolve().unwrap();
        assert_eq!(host.endpoint.to_string(), "127.0.0.1:5001");
        assert_eq!(host.tls.as_ref().unwrap().ca, PEM.as_bytes());
        assert!(!format!("{host:?}").contains("BEGIN"), "a key is never shown");
        let alone = Choice { endpoint: Some("127.0.0.1:5001".to_owned()), ..Choice::default() };
        assert!(shown(alone.resolve()).contains("set KELSONCONFIG"));
    }

    #[test]
    fn pem_text_may_stand_in_the_file() {
        let inline = format!(
            "current: a\ncontexts:\n  a:\n    endpoint: h:1\n{}",
            ["ca", "certificate", "key"]
                .map(|key| format!("    {key}: |\n      {}\n", PEM.trim_end().replace('\n', "\n      ")))
                .concat()
        );
        let folder = folder(&inline);
        assert_eq!(choice(&folder).resolve().unwrap().tls.unwrap().key, PEM.as_bytes());
    }

    #[test]
    fn mistakes_are_pointed_at() {
        let said = |config: &str, context: Option<&str>| {
            let folder = folder(config);
            let choice = Choice { context: context.map(str::to_owned), ..choice(&folder) };
            shown(choice.resolve()).replace(folder.to_str().unwrap(), "DIR")
        };
        assert_eq!(
            said(TWO, Some("edg")),
            "DIR/config has no context \"edg\" (--context); did you mean \"edge\"?"
        );
        assert_eq!(
            said("contexts: {a: {endpoint: 'h:1'}}", None),
            "DIR/config names no current context; give --context NAME (there are: a)"
        );
        assert_eq!(
            said("current: a\ncontexts: {a: {endpoint: 'h:1'}}", None),
            "DIR/config: the context has no `ca:`; it takes a path or PEM text"
        );
        assert_eq!(
            said("current: a\ncontexts: {a: {endpoint: 'h:1', ca: gone.pem}}", None),
            "DIR/config: cannot read `ca:` DIR/gone.pem: No such file or directory (os error 2)"
        );
        let key = said("current: a\ncontexts:\n  a:\n    endpont: h:1\n", None);
        assert!(key.starts_with("DIR/config:4:5: contexts.a: unknown field `endpont`"), "{key}");
        let port = said("current: a\ncontexts: {a: {endpoint: 'h:0'}}", None);
        assert!(port.starts_with("\"h:0\" is no endpoint: the port must be"), "{port}");
        let missing = Choice { config: Some("/nowhere/config".into()), ..Choice::default() };
        assert_eq!(
            shown(missing.resolve()),
            "contexts: cannot read /nowhere/config: No such file or directory (os error 2)"
        );
    }
}
