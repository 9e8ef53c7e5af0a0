//! docs/reference/api.md is what the comments of the .proto files and the table of roles say now, and so is the table in
//! docs/api.md. With KELSON_RENEW set they are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kelson_proto::access;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};

const HEAD: &str = "\
# Reference of the API

Made from the comments in [`proto/kelson/v1`](../../proto/kelson/v1); [The API](../api.md) tells how to call it, who may, and what the limits are. \
The role is the least that a caller from elsewhere needs; root on the host may call all.
";

/// Where each comment of a file stands: the path of the thing that it describes.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Comments {
        let places = file.source_code_info.iter().flat_map(|info| &info.location);
        let text =
            |comment: &str| comment.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned();
        Comments(places.map(|place| (place.path.clone(), text(place.leading_comments()))).collect())
    }

    fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The last part of a name such as `.kelson.v1.ListRequest`.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A type as the tables show it; those of this interface link to their chapters.
fn link(name: &str) -> String {
    match name.strip_prefix(".kelson.v1.") {
        Some(own) => {
            let own = short(own);
            format!("[`{own}`](#{})", own.to_lowercase())
        }
        None => format!("`{}`", name.trim_start_matches('.')),
    }
}

fn field_type(field: &FieldDescriptorProto, nested: &[DescriptorProto]) -> String {
    let of = |field: &FieldDescriptorProto| match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        plain => format!("`{}`", plain.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    };
    let entry = nested.iter().find(|entry| entry.name() == short(field.type_name()));
    match entry.filter(|entry| entry.options.as_ref().is_some_and(|options| options.map_entry())) {
        Some(entry) => format!("map of {} to {}", of(&entry.field[0]), of(&entry.field[1])),
        None if field.label() == Label::Repeated => format!("list of {}", of(field)),
        None if field.proto3_optional() => format!("{}, or absent", of(field)),
        None => of(field),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn message(out: &mut String, message: &DescriptorProto, path: &[i32], comments: &Comments) {
    *out += &format!("\n### {}\n", message.name());
    let about = comments.at(path);
    if !about.is_empty() {
        *out += &format!("\n{}\n", cell(about));
    }
    if message.field.is_empty() {
        *out += "\nIt has no fields.\n";
    } else {
        *out += "\n| field | number | type | what |\n|---|---|---|---|\n";
    }
    for (index, field) in message.field.iter().enumerate() {
        let what = comments.at(&[path, &[2, index as i32]].concat());
        let one_of = match field.oneof_index.filter(|_| !field.proto3_optional()) {
            Some(index) => format!("One of `{}`. ", message.oneof_decl[index as usize].name()),
            None => String::new(),
        };
        let kind = field_type(field, &message.nested_type);
        *out += &format!("| `{}` | {} | {kind} | {one_of}{} |\n", field.name(), field.number(), cell(what));
    }
    for (index, inner) in message.nested_type.iter().enumerate() {
        if !inner.options.as_ref().is_some_and(|options| options.map_entry()) {
            self::message(out, inner, &[path, &[3, index as i32]].concat(), comments);
        }
    }
    for (index, inner) in message.enum_type.iter().enumerate() {
        choice(out, inner, &[path, &[4, index as i32]].concat(), comments);
    }
}

fn choice(out: &mut String, choice: &EnumDescriptorProto, path: &[i32], comments: &Comments) {
    *out += &format!(
        "\n### {}\n\n{}\n\n| word | number | what |\n|---|---|---|\n",
        choice.name(),
        cell(comments.at(path))
    );
    for (index, value) in choice.value.iter().enumerate() {
        let what = comments.at(&[path, &[2, index as i32]].concat());
        *out += &format!("| `{}` | {} | {} |\n", value.name(), value.number(), cell(what));
    }
}

fn file(out: &mut String, file: &FileDescriptorProto) {
    let comments = Comments::of(file);
    for (index, service) in file.service.iter().enumerate() {
        let path = [6, index as i32];
        *out += &format!("\n## {}.{}\n\n{}\n\n", file.package(), service.name(), cell(comments.at(&path)));
        *out += "| method | takes | answers | role | what |\n|---|---|---|---|---|\n";
        for (index, method) in service.method.iter().enumerate() {
            let what = comments.at(&[&path[..], &[2, index as i32]].concat());
            let stream = |streams| if streams { "stream of " } else { "" };
            let (takes, answers) = (link(method.input_type()), link(method.output_type()));
            let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
            let role = access::of(&path).unwrap_or_else(|| panic!("no role may call {path}")).role;
            *out += &format!(
                "| `{}` | {}{takes} | {}{answers} | `{role}` | {} |\n",
                method.name(),
                stream(method.client_streaming()),
                stream(method.server_streaming()),
                cell(what)
            );
        }
    }
    for (index, inner) in file.message_type.iter().enumerate() {
        message(out, inner, &[4, index as i32], &comments);
    }
    for (index, inner) in file.enum_type.iter().enumerate() {
        choice(out, inner, &[5, index as i32], &comments);
    }
}

#[test]
fn the_reference_is_what_the_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(folder.join("kelson/v1"))
        .unwrap()
        .map(|entry| format!("kelson/v1/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    names.sort();
    let set = protox::compile(&names, [folder]).unwrap();
    let mut out = HEAD.to_owned();
    // Those without a service are between Kelson's own processes, unless one with a service uses them.
    let of_services = || set.file.iter().filter(|file| !file.service.is_empty());
    let is_used = |name: &str| of_services().any(|file| file.dependency.iter().any(|used| used == name));
    let is_public = |file: &FileDescriptorProto| !file.service.is_empty() || is_used(file.name());
    for described in set.file.iter().filter(|file| file.package() == "kelson.v1" && is_public(file)) {
        file(&mut out, described);
    }
    for known in ["## kelson.v1.Services", "| `Prune` |", "### HealthReport", "`os:admin`"] {
        assert!(out.contains(known), "{known} is missing");
    }
    let path = docs().join("reference/api.md");
    written(&path, &out);
}

/// The table of roles in docs/api.md is that of `kelson_proto::access`. A test of kelson-apid calls each method as each role.
#[test]
fn the_table_of_roles_is_what_is_enforced() {
    const BEGIN: &str = "<!-- roles -->\n";
    let mut table =
        "| method | no role | `os:reader` | `os:operator` | `os:admin` |\n|---|---|---|---|---|\n".to_owned();
    for access in access::TABLE.iter().filter(|access| !access.path.starts_with("/kelson.test.")) {
        let word = |role| if role >= access.role { "yes" } else { "denied" };
        let [reader, operator, admin] = access::Role::ALL.map(word);
        let method = access::method(access.path);
        table += &format!("| `{method}` | denied | {reader} | {operator} | {admin} |\n");
    }
    let path = docs().join("api.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("<!-- /roles -->").unwrap();
    written(&path, &format!("{before}{BEGIN}{table}<!-- /roles -->{after}"));
}

/// The page says this; with KELSON_RENEW it is written.
fn written(path: &Path, text: &str) {
    if std::env::var_os("KELSON_RENEW").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == text, "{} is old: hack/docs --renew", path.display());
}
