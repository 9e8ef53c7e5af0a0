//! The hosts that `-n` names, and the way to each.

use kelson_api::client::{Endpoint, EndpointError, PORT};

use crate::contexts::Choice;
use crate::failure::Failure;
use crate::output::nearest;

/// Means every context of the file.
pub const ALL: &str = "all";

/// A host of `-n`, and the way to it.
#[derive(Debug)]
pub struct Target {
    pub name: String,
    pub choice: Choice,
    /// A context whose name is nearly the same.
    pub near: Option<String>,
}

/// The way to the first host of this name.
pub fn first(name: &str, choice: &Choice) -> Option<Choice> {
    let targets = targets(&[name.to_owned()], choice).ok()?;
    targets.into_iter().next().map(|target| target.choice)
}

/// The way to the one host of this name.
///
/// # Errors
/// It is not one, or the name is wrong.
pub fn only(name: &str, choice: &Choice) -> Result<Choice, Failure> {
    let mut targets = targets(&[name.to_owned()], choice)?;
    match (targets.pop(), targets.is_empty()) {
        (Some(target), true) => Ok(target.choice),
        _ => Err(Failure::Usage(format!("{name:?} is not one node"))),
    }
}

/// The way to a host of a fleet: the context of its name, or else its address, with the port and the certificates of
/// `choice`.
///
/// # Errors
/// It has neither, or the file of contexts is wrong.
pub fn of_fleet(name: &str, address: Option<&str>, choice: &Choice) -> Result<Target, Failure> {
    let bare = Choice { endpoint: None, environment: None, ..choice.clone() };
    let endpoint = if bare.known()?.iter().any(|context| context == name) {
        None
    } else if let Some(address) = address {
        let port = match choice.resolve()?.endpoint {
            Endpoint::Remote { port, .. } => port,
            Endpoint::Unix(_) | Endpoint::Vsock { .. } => PORT,
        };
        Some(Endpoint::Remote { host: address.to_owned(), port }.to_string())
    } else {
        return Err(Failure::NotReachable(format!(
            "no way to {name:?}: it is not registered, and no context has its name"
        )));
    };
    let context = if endpoint.is_none() { Some(name.to_owned()) } else { bare.context.clone() };
    Ok(Target { name: name.to_owned(), choice: Choice { endpoint, context, ..bare }, near: None })
}

/// The hosts of these names, each once, in this order.
///
/// # Errors
/// The command line or the file of contexts is wrong; nobody is asked anything then.
pub fn targets(names: &[String], choice: &Choice) -> Result<Vec<Target>, Failure> {
    if choice.endpoint.is_some() {
        return Err(Failure::Usage(
            "--nodes and --endpoint both say where to go; give one of them".to_owned(),
        ));
    }
    let contexts = choice.known()?;
    let mut named: Vec<&str> = Vec::new();
    for name in names.iter().map(String::as_str) {
        match name == ALL && !contexts.iter().any(|context| context == ALL) {
            true if contexts.is_empty() => {
                return Err(Failure::Usage(
                    "`all` means every context of the file of contexts, and there is none".to_owned(),
                ));
            }
            true => named.extend(contexts.iter().map(String::as_str)),
            false => named.push(name),
        }
    }
    let mut targets: Vec<Target> = Vec::new();
    let mut addresses = 0;
    for name in named {
        if targets.iter().any(|target| target.name == name) {
            continue;
        }
        let (mut choice, mut near) = (Choice { environment: None, ..choice.clone() }, None);
        if contexts.iter().any(|context| context == name) {
            choice.context = Some(name.to_owned());
        } else {
            choice.endpoint = Some(address(name)?);
            near = nearest(name, contexts.iter().map(String::as_str)).map(str::to_owned);
            addresses += 1;
        }
        targets.push(Target { name: name.to_owned(), choice, near });
    }
    if let (Some(context), 0) = (&choice.context, addresses) {
        return Err(Failure::Usage(format!(
            "each of the nodes is a context itself, so --context {context} says nothing; it gives an address its \
             certificates"
        )));
    }
    Ok(targets)
}

/// The endpoint that HOST or HOST:PORT stands for.
fn address(name: &str) -> Result<String, Failure> {
    if name.is_empty() {
        return Err(Failure::Usage(
            "a node has no name; --nodes takes names with commas between them".to_owned(),
        ));
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Usage(format!(
            "{name:?} is no node: it is a context, HOST or HOST:PORT (-n names nodes; lines are counted by --tail)"
        )));
    }
    if name.starts_with('/') || name.starts_with("unix:") {
        return Ok(name.to_owned());
    }
    match name.parse::<Endpoint>() {
        Ok(endpoint) => Ok(endpoint.to_string()),
        Err(EndpointError { problem, .. }) => Err(Failure::Usage(format!(
            "{name:?} is no node: {problem}; right are the name of a context, HOST and HOST:PORT"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, context and endpoint of each.
    type Chosen = (String, Option<String>, Option<String>);

    fn chosen(names: &[&str], choice: &Choice) -> Result<Vec<Chosen>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let targets = targets(&names, choice).map_err(|failure| {
            assert_eq!(failure.exit_status(), 2);
            failure.to_string()
        })?;
        Ok(targets.into_iter().map(|each| (each.name, each.choice.context, each.choice.endpoint)).collect())
    }

    #[test]
    fn a_host_without_a_port_has_the_usual_one() {
        for (name, endpoint) in [
            ("edge", "edge:50000"),
            ("192.0.2.7", "192.0.2.7:50000"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("::1", "[::1]:50000"),
            ("[::1]", "[::1]:50000"),
            ("[::1]:7", "[::1]:7"),
            ("unix:///run/k.sock", "unix:///run/k.sock"),
        ] {
            assert_eq!(address(name).unwrap(), endpoint);
        }
        for (name, said) in [
            ("edge:0", "the port must be"),
            ("a b", "an address or a name"),
            ("", "no name"),
            ("20", "--tail"),
        ] {
            let failure = address(name).unwrap_err();
            assert!(failure.to_string().contains(said) && failure.exit_status() == 2, "{name}: {failure}");
        }
    }

    #[test]
    fn contexts_come_before_addresses() {
        let folder = crate::samples::Folder::new();
        let path = folder.join("config");
        let context = |name: &str| format!("  {name}: {{endpoint: 'unix:///tmp/{name}.sock'}}\n");
        let write = |names: &[&str]| {
            let contexts: String = names.iter().map(|name| context(name)).collect();
            std::fs::write(&path, format!("contexts:\n{contexts}")).unwrap();
        };
        let choice = Choice {
            config: Some(path.clone()),
            environment: Some("unix:///tmp/elsewhere.sock".to_owned()),
            ..Choice::default()
        };
        let context = |name: &str| (name.to_owned(), Some(name.to_owned()), None);
        let address = |name: &str, endpoint: &str| (name.to_owned(), None, Some(endpoint.to_owned()));
        write(&["lab", "edge"]);
        assert_eq!(
            chosen(&["lab", "10.0.0.1", "lab", "edge"], &choice).unwrap(),
            [context("lab"), address("10.0.0.1", "10.0.0.1:50000"), context("edge")],
            "each once, in the order of the command line"
        );
        assert_eq!(chosen(&["lab", "all"], &choice).unwrap(), [context("lab"), context("edge")]);
        assert_eq!(targets(&["eddge".to_owned()], &choice).unwrap()[0].near.as_deref(), Some("edge"));
        let named = Choice { context: Some("edge".to_owned()), ..choice.clone() };
        assert!(chosen(&["lab"], &named).unwrap_err().contains("--context edge says nothing"));
        assert_eq!(
            chosen(&["lab", "h"], &named).unwrap(),
            [context("lab"), ("h".to_owned(), Some("edge".to_owned()), Some("h:50000".to_owned()))]
        );
        write(&["all", "edge"]);
        assert_eq!(chosen(&["all"], &choice).unwrap(), [context("all")], "a context of that name wins");
        std::fs::remove_file(path).unwrap();
        assert!(chosen(&["lab"], &choice).unwrap_err().starts_with("contexts: cannot read"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(chosen(&["all"], &Choice::default()).unwrap_err().contains("there is none"));
        let choice = Choice { endpoint: Some("h:1".to_owned()), ..Choice::default() };
        assert!(chosen(&["edge"], &choice).unwrap_err().contains("give one of them"));
    }
}
