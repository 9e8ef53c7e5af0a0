//! `config`: the contexts of the file that KELSONCONFIG names, or of the usual one: listed, chosen, added, removed, merged;
//! and the configuration of a host, shown.

mod listing;
mod show;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kelson_api::client::Endpoint;

use crate::call::{Call, Run};
use crate::contexts::{Choice, Context, File, KELSONCONFIG, WORD, folder_of};
use crate::failure::Failure;
use crate::output::{Page, escape, list};

/// Manage the contexts of hosts; show the configuration of a host
///
/// kelsonctl writes the whole file: its mode is kept, comments in it are not.
///
/// Examples:
///   kelsonctl config contexts
///   kelsonctl config use edge-1
///   kelsonctl config merge ~/Downloads/kelsonconfig --file ~/.kelsonconfig
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Another file of contexts
    #[arg(long, global = true, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// List the contexts with role and expiry of their certificates
    ///
    /// Examples:
    ///   kelsonctl config contexts
    ///   kelsonctl config contexts -o json | jq -r '.[] | select(.trouble).name'
    #[command(verbatim_doc_comment)]
    Contexts,
    /// Show the values of the configuration in force on the host
    ///
    /// These are the keys of machine.yaml and the files of services and groups, as
    /// the host would read them now. This needs the role os:admin.
    ///
    /// Examples:
    ///   kelsonctl config show
    ///   kelsonctl -n edge-1 config show --origin
    #[command(verbatim_doc_comment)]
    Show {
        /// Where each value comes from: image, generation or source
        #[arg(long)]
        origin: bool,
    },
    /// Make a context the current one
    ///
    /// Examples:
    ///   kelsonctl config use edge-1
    #[command(verbatim_doc_comment)]
    Use {
        /// The context
        #[arg(value_name = "NAME")]
        known: String,
    },
    /// Add a context, for the machine that --endpoint names
    ///
    /// Examples:
    ///   kelsonctl config add edge-1 --endpoint 192.0.2.7:50000 \
    ///       --ca ca.pem --certificate ann.pem --key ann.key
    ///   kelsonctl config add here --endpoint unix:///run/kelson/init.sock
    #[command(verbatim_doc_comment)]
    Add(Add),
    /// Remove a context, and its key if the file contains it as text
    ///
    /// Examples:
    ///   kelsonctl config remove edge-1
    #[command(verbatim_doc_comment)]
    Remove {
        /// The context
        #[arg(value_name = "NAME")]
        known: String,
    },
    /// Add the contexts of another file
    ///
    /// Examples:
    ///   kelsonctl config merge edge-2.yaml
    #[command(verbatim_doc_comment)]
    Merge {
        /// The other file; it stays as it is
        #[arg(value_name = "FILE")]
        other: PathBuf,
        /// Replace contexts of the same name
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct Add {
    /// The context
    #[arg(value_name = "NAME")]
    new: String,
    /// The CA that signed the machine's, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "key"])]
    ca: Option<PathBuf>,
    /// The client's certificate, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    certificate: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["ca", "certificate"])]
    key: Option<PathBuf>,
    /// Replace a context of the same name
    #[arg(long)]
    force: bool,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        if let Action::Show { origin } = self.action {
            return show::show(call, origin).await;
        }
        let Choice { config, usual, .. } = &call.choice;
        let (path, word) = match (self.file, config, usual) {
            (Some(path), _, _) => (path, "--file"),
            (None, Some(path), _) => (path.clone(), KELSONCONFIG),
            (None, None, Some(path)) => {
                if matches!(self.action, Action::Add(_) | Action::Merge { .. }) {
                    make_folder_of(path)?;
                } else if path.symlink_metadata().is_err() {
                    return Err(no_file(&format!(" at {}", path.display())));
                }
                (path.clone(), WORD)
            }
            (None, None, None) => {
                return Err(no_file(""));
            }
        };
        let (file, summary) = match self.action {
            Action::Show { .. } => return Ok(()),
            Action::Contexts => {
                let file = File::read(&path, word)?;
                let now = SystemTime::now();
                let table = || listing::table(&file, &path, &call.terminal, now);
                return call.show(&listing::views(&file, &path, now), || Page::Text(table()));
            }
            Action::Use { known } => {
                let mut file = File::read(&path, word)?;
                if !file.contexts.contains_key(&known) {
                    return Err(file.unknown(&path, &known, "config use"));
                }
                let summary = format!("{known:?} is the current context");
                file.current = Some(known);
                (file, summary)
            }
            Action::Add(add) => {
                let mut file = File::read_or_begin(&path, word)?;
                let summary = format!("the context {:?} was added", add.new);
                add.to(&mut file, &path, call)?;
                (file, summary)
            }
            Action::Remove { known } => {
                let mut file = File::read(&path, word)?;
                if file.contexts.remove(&known).is_none() {
                    return Err(file.unknown(&path, &known, "config remove"));
                }
                let was_current = file.current.take_if(|current| *current == known).is_some();
                let and = if was_current { "; none is the current one now" } else { "" };
                (file, format!("the context {known:?} was removed{and}"))
            }
            Action::Merge { other, force } => {
                let mut file = File::read_or_begin(&path, word)?;
                let summary = merge(&mut file, &path, &other, force)?;
                (file, summary)
            }
        };
        file.write(&path)?;
        let line = || format!("{}: {}\n", escape(&path.display().to_string()), escape(&summary));
        call.show(&listing::views(&file, &path, SystemTime::now()), || Page::Text(line()))
    }
}

impl Add {
    fn to(self, file: &mut File, path: &Path, call: &Call) -> Result<(), Failure> {
        refuse_known(file, path, &self.new, self.force)?;
        let endpoint = call.choice.machine()?;
        // As the files lie from here; the file of contexts may lie elsewhere.
        let here = folder_of(Path::new("here"))?;
        let [ca, certificate, key] = [self.ca, self.certificate, self.key]
            .map(|path| path.map(|path| here.join(path).display().to_string()));
        let context = Context { endpoint: endpoint.to_string(), ca, certificate, key };
        match &endpoint {
            Endpoint::Remote { .. } if context.ca.is_none() => {
                return Err(Failure::Usage(format!(
                    "{endpoint} is reached with certificates: give --ca, --certificate and --key"
                )));
            }
            Endpoint::Unix(_) | Endpoint::Vsock { .. } if context.ca.is_some() => {
                return Err(Failure::Usage(format!(
                    "{endpoint} is a socket, which needs no certificate; leave out --ca, --certificate and --key"
                )));
            }
            // A wrong path is found now, not with the first call.
            Endpoint::Remote { .. } => drop(context.material(path)?),
            Endpoint::Unix(_) | Endpoint::Vsock { .. } => {}
        }
        file.add(self.new, context);
        Ok(())
    }
}

fn no_file(place: &str) -> Failure {
    Failure::Usage(format!(
        "no file of contexts{place}: set KELSONCONFIG to its path, or give --file FILE (`kelsonctl gen config` makes one)"
    ))
}

/// Makes the folder in which the usual file of contexts is to be, for the eyes of its owner.
fn make_folder_of(path: &Path) -> Result<(), Failure> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::Failed(format!("cannot make the folder {}: {error}", folder.display())))
}

fn refuse_known(file: &File, path: &Path, name: &str, force: bool) -> Result<(), Failure> {
    if file.contexts.contains_key(name) && !force {
        return Err(Failure::Failed(format!(
            "{} has a context {name:?} already; nothing was written (--force lets the new one take its place)",
            path.display()
        )));
    }
    Ok(())
}

/// Adds all contexts of the other file; its paths mean the same files as before. Where no context is the current one,
/// that of the other file becomes it.
fn merge(file: &mut File, path: &Path, other: &Path, force: bool) -> Result<String, Failure> {
    let from = folder_of(other)?;
    let is_elsewhere = folder_of(path)? != from;
    let mut added = Vec::new();
    let File { current, contexts, .. } = File::read(other, "config merge")?;
    if file.current.is_none() {
        file.current = current.filter(|name| contexts.contains_key(name));
    }
    for (name, context) in contexts {
        let context = if is_elsewhere { context.with_absolute_paths(&from) } else { context };
        if file.contexts.get(&name) == Some(&context) {
            continue;
        }
        refuse_known(file, path, &name, force)?;
        added.push(format!("{name:?}"));
        file.add(name, context);
    }
    Ok(match added.len() {
        0 => format!("has all contexts of {} already", other.display()),
        1 => format!("the context {} was added", list(&added)),
        _ => format!("the contexts {} were added", list(&added)),
    })
}
