//! The language of templates: what a template says of the host and of what is registered, as text. Pure.
//!
//! It reads no file and no variable of the environment. A text that grows without end is ended by its length or by the number
//! of its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

/// The longest template and the longest text, in bytes.
pub const LONGEST: usize = 1 << 20;
/// Some hundred for each of 10,000 instances.
const STEPS: u64 = 5_000_000;
/// Needs that are named.
const NAMED: usize = 4;

/// An instance of a name, as a template sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Instance {
    pub host: String,
    pub service: String,
    pub address: String,
    pub port: u32,
    pub tags: Vec<String>,
    pub meta: BTreeMap<String, String>,
}

/// What is known, for one template.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The name of the host in its fleet.
    pub host: String,
    pub labels: BTreeMap<String, String>,
    /// `None`: they are not known yet.
    pub facts: Option<BTreeMap<String, String>>,
    /// By name, in the order of hosts and services. Of other names nothing is known yet.
    pub registry: BTreeMap<String, Vec<Instance>>,
}

/// What came of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Text(String),
    /// Something is not known yet: what.
    Unknown(String),
    /// What is missing, or what is wrong with the template.
    Problem(String),
}

/// A template that was rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The names whose instances it needs.
    pub names: BTreeSet<String>,
    pub outcome: Outcome,
}

/// What a template has asked for.
#[derive(Default)]
struct Asked {
    names: BTreeSet<String>,
    unknown: Option<&'static str>,
    missing: Vec<String>,
}

type SharedAsked = Arc<Mutex<Asked>>;

fn lock(asked: &SharedAsked) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Renders a template.
pub fn render(text: &str, known: Arc<Known>) -> Rendered {
    let asked = SharedAsked::default();
    let done = rendered(text, known, &asked);
    let Asked { names, unknown, missing } = std::mem::take(&mut *lock(&asked));
    let outcome = match (done, unknown, missing.as_slice()) {
        // What is not known yet may be all that is wrong.
        (_, Some(what), _) => Outcome::Unknown(what.to_owned()),
        (Err(problem), ..) => Outcome::Problem(problem),
        (Ok(text), _, []) => Outcome::Text(text),
        (Ok(_), _, all) => {
            let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = all.len().saturating_sub(NAMED);
            Outcome::Problem(if more > 0 { format!("{named}, {more} more") } else { named })
        }
    };
    Rendered { names, outcome }
}

fn rendered(text: &str, known: Arc<Known>, asked: &SharedAsked) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(STEPS));
    let host = Value::from_iter([("name", known.host.clone())]);
    environment.add_global("host", host);
    environment.add_global("labels", Value::from_serialize(&known.labels));
    let (facts, of_facts) = (Arc::clone(&known), Arc::clone(asked));
    environment.add_function("fact", move |name: String| fact(&name, &facts, &of_facts));
    let asked = Arc::clone(asked);
    let registered = move |name: String, needs: Kwargs| registered(name, &needs, &known, &asked);
    environment.add_function("registered", registered);
    let template = environment.template_from_str(text).map_err(|error| mistake(&error, text))?;
    let mut output = Bounded(Vec::new());
    template.render_captured_to((), &mut output).map_err(|error| mistake(&error, text))?;
    String::from_utf8(output.0).map_err(|_| "its text is no UTF-8".to_owned())
}

fn fact(name: &str, known: &Known, asked: &SharedAsked) -> Result<String, Error> {
    let Some(facts) = &known.facts else {
        lock(asked).unknown = Some("the facts of the host are not known yet");
        return Ok(String::new());
    };
    facts.get(name).cloned().ok_or_else(|| {
        let text = format!("this host does not have the fact {name}; kelsonctl facts lists what it has");
        Error::new(ErrorKind::UndefinedError, text)
    })
}

/// `registered("postgres", tag="primary", min=1)`.
fn registered(name: String, needs: &Kwargs, known: &Known, asked: &SharedAsked) -> Result<Value, Error> {
    let tag: Option<String> = needs.get("tag")?;
    let min: usize = needs.get::<Option<usize>>("min")?.unwrap_or(1);
    needs.assert_all_used()?;
    if !crate::key::is_name(&name) {
        let text = format!("{name:?} is no name of a register; write letters a-z, digits and -");
        return Err(Error::new(ErrorKind::InvalidOperation, text));
    }
    let mut asked = lock(asked);
    asked.names.insert(name.clone());
    let Some(all) = known.registry.get(&name) else {
        asked.unknown = Some("the registry has not answered yet");
        return Ok(Value::from(Vec::<Value>::new()));
    };
    let has_tag = |one: &&Instance| tag.as_ref().is_none_or(|tag| one.tags.contains(tag));
    let found: Vec<&Instance> = all.iter().filter(has_tag).collect();
    if found.len() < min {
        let of_tag = tag.map_or_else(String::new, |tag| format!(" with tag {tag}"));
        let count = match found.len() {
            0 => "no instance of".to_owned(),
            count => format!("{count} of {min} instances of"),
        };
        asked.missing.push(format!("{count} {name}{of_tag}"));
    }
    Ok(found.into_iter().map(Value::from_serialize).collect())
}

/// What is wrong, and where: `line 3, column 7: …`.
fn mistake(error: &Error, text: &str) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => {
            format!("it takes more than {STEPS} steps; make its loops shorter")
        }
        (ErrorKind::WriteFailure, _) => {
            format!("its text is longer than {LONGEST} bytes; make it shorter")
        }
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    let start = error.range().map(|range| range.start);
    let column = start.and_then(|start| {
        let line = text.get(..start)?.rsplit('\n').next()?;
        Some(line.chars().count().saturating_add(1))
    });
    match (error.line(), column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: {what}"),
        (Some(line), None) => format!("line {line}: {what}"),
        _ => what,
    }
}

/// Takes no more than the longest text.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let instance = |host: &str, tag: &str| Instance {
            host: host.to_owned(),
            service: "db".to_owned(),
            address: format!("{host}.example"),
            port: 5432,
            tags: vec![tag.to_owned()],
            meta: [("version".to_owned(), "15".to_owned())].into(),
        };
        Known {
            host: "edge-1".to_owned(),
            labels: [("role".to_owned(), "edge".to_owned())].into(),
            facts: Some([("memory.total".to_owned(), "8589934592".to_owned())].into()),
            registry: [("postgres".to_owned(), vec![instance("a", "primary"), instance("b", "standby")])]
                .into(),
        }
    }

    fn outcome(text: &str) -> Outcome {
        render(text, Arc::new(known())).outcome
    }

    #[test]
    fn a_template_has_the_host_and_what_is_registered() {
        let text = "# {{ host.name }} {{ labels.role }} {{ fact('memory.total') | int // 1048576 }}M\n\
                    {% for db in registered('postgres') %}\n  \
                    server {{ db.host }} {{ db.address }}:{{ db.port }}{% if 'standby' in db.tags %} backup{% endif %} # {{ db.meta.version }}\n\
                    {% endfor %}\n\
                    {% set p = registered('postgres', tag='primary') | first %}\nPRIMARY=<{{ p.address }}>\n";
        let expected = "# edge-1 edge 8192M\n  server a a.example:5432 # 15\n  server b b.example:5432 backup # 15\n\
                        PRIMARY=<a.example>\n";
        assert_eq!(outcome(text), Outcome::Text(expected.to_owned()));
    }

    #[test]
    fn what_is_missing_is_named_and_an_empty_list_can_be_asked_for() {
        let missing = |text: &str| match outcome(text) {
            Outcome::Problem(text) => text,
            other => panic!("{other:?}"),
        };
        let text = "{% for a in registered('postgres', tag='arbiter') %}{{ a.host }}{% endfor %}";
        assert_eq!(missing(text), "no instance of postgres with tag arbiter");
        assert_eq!(missing("{{ registered('postgres', min=3) }}"), "2 of 3 instances of postgres");
        let empty = "{{ registered('postgres', tag='arbiter', min=0) | length }}";
        assert_eq!(outcome(empty), Outcome::Text("0".to_owned()));
    }

    #[test]
    fn what_is_not_known_yet_is_no_mistake_and_its_name_is_asked_for() {
        let text = "{{ (registered('web') | first).address }}{{ registered('postgres') | length }}";
        let rendered = render(text, Arc::new(known()));
        assert_eq!(rendered.outcome, Outcome::Unknown("the registry has not answered yet".to_owned()));
        assert!(rendered.names.contains("web"), "{rendered:?}");
        let facts = render("{{ fact('x') }}", Arc::new(Known::default()));
        assert_eq!(facts.outcome, Outcome::Unknown("the facts of the host are not known yet".to_owned()));
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        for (text, why) in [
            ("a\nb {{ nothing }}", "line 2, column 6: "),
            ("{% for x in %}", "line 1"),
            (
                "{{ fact('colour') }}",
                "line 1, column 4: this host does not have the fact colour; kelsonctl facts lists what it has",
            ),
            ("{{ registered('Post/gres') }}", "is no name of a register"),
            ("{{ registered('postgres', tags='x') }}", "tags"),
            ("{{ labels.size }}", "line 1"),
            ("{% include '/etc/shadow' %}", "line 1"),
            (
                "{% for a in range(99999) %}{% for b in range(99999) %}{{ '' }}{% endfor %}{% endfor %}",
                "steps",
            ),
            (
                "{% for a in range(9999) %}{{ 'x' * 1000 }}{% endfor %}",
                "its text is longer than 1048576 bytes",
            ),
        ] {
            match outcome(text) {
                Outcome::Problem(problem) => assert!(problem.contains(why), "{text}: {problem}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
