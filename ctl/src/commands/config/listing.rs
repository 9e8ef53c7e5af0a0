//! The contexts of a file as a table and as data, with what their certificates say.

use std::path::Path;
use std::time::SystemTime;

use kelson_api::client::Endpoint;
use kelson_apid::certificate::{self, Certificate};
use kelson_proto::access::Role;
use prost_types::Timestamp;
use serde_yaml::Value;

use crate::contexts::{self, Context, File};
use crate::output::{Cell, Table, Terminal, Tone, cell, object, or_dash, time, toned};
use crate::pki::DAY;

/// The known facts about a context's own certificate.
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
            Ok(Endpoint::Unix(_) | Endpoint::Vsock { .. }) => return Known::default(),
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
    let is_current = |name: &String| file.current.as_ref() == Some(name);
    Table::of(file.contexts.iter().map(|(name, context)| (name, context, Known::of(context, path, now))))
        .left("", |(name, ..)| if is_current(name) { toned(Tone::Good, "*") } else { cell("") })
        .left("NAME", |(name, ..)| *name)
        .left("ENDPOINT", |(_, context, _)| &context.endpoint)
        .left("CN", |(.., context)| or_dash(context.common_name.as_deref()))
        .spare(1)
        .left("ROLE", |(.., context)| or_dash(context.role.map(Role::name)))
        .spare(2)
        .left("EXPIRES", |(.., context)| or_dash(context.until.as_ref().map(|until| expires(until, now))))
        .cut("TROUBLE", |(.., context)| toned(Tone::Bad, context.trouble.as_deref().unwrap_or_default()))
        .render(terminal.width, terminal.palette)
}

/// `in 29d23h`, `2d ago`.
fn expires(until: &Timestamp, now: SystemTime) -> Cell {
    match time::left(until, now) {
        left if left.is_zero() => toned(Tone::Bad, format!("{} ago", time::relative(time::ago(until, now)))),
        left if left < 7 * DAY => toned(Tone::Waiting, format!("in {}", time::relative(left))),
        left => cell(format!("in {}", time::relative(left))),
    }
}
