//! The kinds of values that several keys share, and texts of a certain form.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Form, Kind};
use kelson_spec::kernel;

/// The longest duration that a file may name.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What `name` is must match `pattern`, as `sample` does.
pub(super) fn form(name: &'static str, pattern: &str, sample: &'static str) -> Form {
    Form { name, pattern: pattern.to_owned(), sample }
}

fn text(name: &'static str, pattern: &str, sample: &'static str) -> Kind {
    Kind::Form(form(name, pattern, sample))
}

/// A text that is not empty; `name` says of what.
pub(super) fn word(name: &'static str, sample: &'static str) -> Kind {
    text(name, r"[\s\S]", sample)
}

pub(super) fn choice(words: &[&'static str]) -> Kind {
    Kind::Choice(words.to_vec())
}

pub(super) fn name() -> Kind {
    text("name", "^[a-z0-9][a-z0-9-]{0,62}$", "db")
}

pub(super) fn path() -> Kind {
    text("path", "^/", "/srv")
}

/// A program and its arguments.
pub(super) fn command() -> Kind {
    Kind::Text.list_of(1, usize::MAX)
}

/// Those that may be zero.
pub(super) fn duration() -> Kind {
    Kind::Duration(Duration::ZERO..=YEAR)
}

pub(super) fn duration_from(least: Duration) -> Kind {
    Kind::Duration(least..=YEAR)
}

/// How long a start may take.
pub(super) fn start_timeout() -> Kind {
    Kind::Either(vec![duration_from(Duration::from_millis(1)), choice(&["none"])])
}

pub(super) fn duration_within(range: RangeInclusive<Duration>) -> Kind {
    Kind::Duration(range)
}

pub(super) fn environment() -> Kind {
    Kind::Map(form("name", "^[A-Za-z_][A-Za-z0-9_]*$", "LANG"), Box::new(Kind::Text))
}

pub(super) fn environment_files() -> Kind {
    text("path", "^-?/", "-/etc/web.env").list()
}

pub(super) fn host_name() -> Kind {
    let label = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?";
    text("host name", &format!(r"^{label}(\.{label})*$"), "edge-1")
}

pub(super) fn address() -> Kind {
    text("IP address", "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*$", "192.0.2.7")
}

pub(super) fn signal() -> Kind {
    let names: Vec<&str> = kernel::signal_names().collect();
    let pattern = format!(r"^(SIG)?({}|RTMIN(\+[0-9]+)?|RTMAX(-[0-9]+)?)$", names.join("|"));
    Kind::Either(vec![text("signal", &pattern, "SIGTERM"), Kind::Number(1..=64)])
}

/// Names of capabilities as they are in capabilities(7), or `all`.
pub(super) fn capabilities() -> Kind {
    let words = std::iter::once("all").chain(kernel::CAPABILITIES).collect();
    Kind::Either(vec![Kind::Choice(words), text("capability", "^CAP_[A-Z_]+$", "CAP_CHOWN")]).list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_has_its_form() {
        let all = [name(), path(), word("text", "x"), host_name(), address(), signal(), capabilities()];
        fn forms(kind: &Kind, found: &mut Vec<Form>) {
            match kind {
                Kind::Form(form) => found.push(form.clone()),
                Kind::Either(kinds) => kinds.iter().for_each(|kind| forms(kind, found)),
                Kind::List(kind, _) => forms(kind, found),
                _ => {}
            }
        }
        let mut found = Vec::new();
        all.iter().for_each(|kind| forms(kind, &mut found));
        assert_eq!(found.len(), all.len());
        for form in found {
            let pattern = regex_lite::Regex::new(&form.pattern).unwrap();
            assert!(pattern.is_match(form.sample), "{form:?}");
            assert!(!pattern.is_match(""), "{form:?}");
        }
    }
}
