//! The contexts of a file as a table and as data, with what their certificates say.

use std::path::Path;
use std::time::SystemTime;

use kelson_api::client::Endpoint;
use kelson_apid::certificate::{self, Certificate};
use kelson_proto::access::Role;
use prost_types::Timestamp;
use serde_yaml::Value;

use crate::contexts::{self, Context, File};
use crate::output::style::Tone;
use crate::output::table::{Cell, Table, cell, toned};
use crate::output::terminal::Terminal;
use crate::output::time;
use crate::output::views::object;
use crate::pki::DAY;

/// What is known of a context's own certificate.
#[derive(Debug, Default)]
struct Known {
    common_name: Option<String>,
    role: Option<Role>,
    until: Option<Timestamp>,
    /// Why the context cannot be used.
    trouble: Option<String>,
}

impl Known {
    fn of(context: &Context, file: &Path, now: SystemTime) -> Known {
        let trouble = |trouble: String| Known { trouble: Some(trouble), ..Known::default() };
        match contexts::parse(&context.endpoint) {
            Ok(Endpoint::Unix(_)) => return Known::default(),
            Ok(Endpoint::Remote { .. }) => {}
            Err(failure) => return trouble(failure.to_string()),
        }
        let material = match context.material(file) {
            Ok(material) => material,
            Err(failure) => return trouble(failure.to_string()),
        };
        let der = certificate::from_pem(&material.certificate).unwrap_or_default();
        let Some((read, validity)) = Certificate::read(&der).and_then(|read| Some((read, read.validity()?)))
        else {
            return trouble("its certificate is damaged".to_owned());
        };
        let subject = read.subject().unwrap_or_default();
        let until = Timestamp { seconds: validity.until, nanos: 0 };
        let from = Timestamp { seconds: validity.from, nanos: 0 };
        let trouble = if time::left(&until, now).is_zero() {
            Some("its certificate has expired; `kelsonctl gen config --force` makes another".to_owned())
        } else if !time::left(&from, now).is_zero() {
            Some(format!("its certificate does not hold before {}", time::rfc3339(&from)))
        } else if subject.role.is_none() {
            Some("its certificate has no role, and may do nothing".to_owned())
        } else {
            None
        };
        Known { common_name: subject.common_name, role: subject.role, until: Some(until), trouble }
    }
}

/// The contexts as programs read them.
pub fn views(file: &File, path: &Path, now: SystemTime) -> Vec<Value> {
    let view = |(name, context): (&String, &Context)| {
        let known = Known::of(context, path, now);
        let current = file.current.as_ref() == Some(name);
        object!(known =>
            name: name, endpoint: context.endpoint, current: current, common_name,
            role: known.role.map(Role::name), until, trouble,
        )
    };
    file.contexts.iter().map(view).collect()
}

/// The contexts as people read them; a star stands before the current one.
pub fn table(file: &File, path: &Path, terminal: &Terminal, now: SystemTime) -> String {
    let mut table = Table::new(&["", "NAME", "ENDPOINT", "CN", "ROLE", "EXPIRES", "TROUBLE"]).spare(&[3, 4]);
    for (name, context) in &file.contexts {
        let known = Known::of(context, path, now);
        let is_current = file.current.as_ref() == Some(name);
        table.row(vec![
            if is_current { toned(Tone::Good, "*") } else { cell("") },
            cell(name),
            cell(&context.endpoint),
            or_dash(known.common_name.as_deref()),
            or_dash(known.role.map(Role::name)),
            expires(known.until.as_ref(), now),
            toned(Tone::Bad, known.trouble.unwrap_or_default()),
        ]);
    }
    table.render(terminal.width, terminal.palette)
}

fn or_dash(text: Option<&str>) -> Cell {
    text.map_or_else(|| toned(Tone::Quiet, "-"), cell)
}

/// `in 29d23h`, `2d ago`.
fn expires(until: Option<&Timestamp>, now: SystemTime) -> Cell {
    let Some(until) = until else { return toned(Tone::Quiet, "-") };
    match time::left(until, now) {
        left if left.is_zero() => toned(Tone::Bad, format!("{} ago", time::relative(time::ago(until, now)))),
        left if left < 7 * DAY => toned(Tone::Waiting, format!("in {}", time::relative(left))),
        left => cell(format!("in {}", time::relative(left))),
    }
}
