//! `config show`: the values of the configuration that is in force on a host, with where they come from.

use kelson_load::{Origin, origins};
use kelson_proto::v1::GetConfigurationRequest;
use kelson_spec::applied::TreeFile;

use crate::call::Call;
use crate::configuration::TIMEOUT;
use crate::failure::{Failure, answer_within};
use crate::output::{Page, Table, cell, or_dash, views};

views! {
    Origin: origin { name, value: origin.value.as_ref().and_then(|value| serde_yaml::to_value(value).ok()), source: &origin.source, file, line }
}

/// Shows the values of the host; with `origin`, where each comes from.
pub async fn show(call: &Call, origin: bool) -> Result<(), Failure> {
    let request = GetConfigurationRequest { generation: None, sources: true };
    let found = answer_within(TIMEOUT, call.client()?.configuration().get(request)).await?;
    let files = found.files.into_iter().map(|file| TreeFile { name: file.name, content: file.content });
    let own = match found.generation {
        0 => "image".to_owned(),
        generation => format!("generation {generation}"),
    };
    let mut values = origins(&files.collect::<Vec<_>>());
    values.iter_mut().for_each(|value| {
        value.source.get_or_insert_with(|| own.clone());
    });
    call.show(&values, || Page::Table(table(&values, origin)))
}

fn table(values: &[Origin], origin: bool) -> Table {
    let place = |value: &&Origin| match value.line {
        Some(line) => format!("{}:{line}", value.file),
        None => value.file.clone(),
    };
    let table = Table::of(values).left("NAME", |value| cell(&value.name));
    let table = match origin {
        true => table
            .left("ORIGIN", |value| or_dash(value.source.as_ref()))
            .left("FILE", |value| cell(place(value))),
        false => table,
    };
    table.cut("VALUE", |value| or_dash(value.value.as_ref().map(ToString::to_string))).into()
}
