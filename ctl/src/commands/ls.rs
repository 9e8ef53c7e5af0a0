//! `ls`: what is in a folder of the host.

use std::time::SystemTime;

use kelson_proto::v1::{File, FilesRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Page, Table, Terminal, Tone, cell, escape_bytes, some, text, toned, views};

/// List a folder of the host
///
/// Examples:
///   kelsonctl ls /etc/kelson
///   kelsonctl ls -lR /var/log
///   kelsonctl ls -o json /var | jq -r '.[] | select(.type == "folder").name'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Show permissions, owner, size and time
    #[arg(short, long)]
    long: bool,
    /// Include all folders below it on the same file system
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The folder, or a file, from / on
    #[arg(value_name = "PATH", value_parser = absolute)]
    path: String,
}

/// A path of a host: there is no folder there that it could be relative to.
pub fn absolute(text: &str) -> Result<String, Failure> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(Failure::Usage("a path of the host begins with /".to_owned())),
    }
}

views! {
    // `name`: below the path that was asked for; empty: that itself. `mode`: permissions, in octal. `link`: where a
    // symbolic link leads. `major`, `minor`: of a device. `trouble`: why nothing more is known of it.
    File: file {
        name: text::lossy(&file.name), r#type: kind(file.mode), mode: format!("{:04o}", file.mode & 0o7777), uid, gid,
        size, modified, link: some(&text::lossy(&file.link)), major: is_device(file.mode).then_some(file.major),
        minor: is_device(file.mode).then_some(file.minor), trouble: some(&file.trouble),
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let Arguments { long, recursive, path } = self;
        let request = FilesRequest { path: path.clone(), recursive };
        let files = gather(call.client()?.inspect().files(request), |page| page.files).await?;
        call.show(&files, || match long {
            true => Page::Table(table(&files, &path, &call.terminal, SystemTime::now())),
            false => Page::Lines(files.iter().map(|file| name(file, &path) + "\n").collect()),
        })?;
        let mut whole = true;
        for file in files.iter().filter(|file| !file.trouble.is_empty()) {
            call.note(&format!("{}: {}", name(file, &path), file.trouble));
            whole = false;
        }
        if whole { Ok(()) } else { Err(Failure::Reported) }
    }
}

fn is_device(mode: u32) -> bool {
    matches!(kind(mode), "character" | "block")
}

/// The word for the type of a file; empty where it is not known.
fn kind(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "folder",
        libc::S_IFLNK => "link",
        libc::S_IFIFO => "pipe",
        libc::S_IFSOCK => "socket",
        libc::S_IFCHR => "character",
        libc::S_IFBLK => "block",
        _ => "",
    }
}

/// The name as it is listed: that of the path itself is the path.
fn name(file: &File, path: &str) -> String {
    let name = if file.name.is_empty() { path.as_bytes() } else { &file.name };
    // A tab is no name's business in a list.
    escape_bytes(name).replace('\t', "\\t")
}

fn table(files: &[File], path: &str, terminal: &Terminal, now: SystemTime) -> Table {
    // Of a folder that cannot be gone into all else is known.
    let of = |field: &dyn Fn(&File) -> String, file: &File| match file.trouble.is_empty() || file.mode != 0 {
        true => cell(field(file)),
        false => toned(Tone::Quiet, "?"),
    };
    let size = |file: &File| match kind(file.mode) {
        "character" | "block" => format!("{}, {}", file.major, file.minor),
        _ => file.size.to_string(),
    };
    let modified = |file: &File| file.modified.as_ref().map_or(String::new(), |at| terminal.time(at, now));
    let link = |file: &File| match file.link.as_slice() {
        [] => String::new(),
        link => format!(" -> {}", escape_bytes(link)),
    };
    Table::of(files)
        .left("MODE", |file| of(&|file| mode(file.mode), file))
        .right("USER", |file| of(&|file| file.uid.to_string(), file))
        .right("GROUP", |file| of(&|file| file.gid.to_string(), file))
        .right("SIZE", |file| of(&size, file))
        .left("MODIFIED", |file| of(&modified, file))
        .left("NAME", |file| name(file, path) + &link(file))
        .into()
}

/// `drwxr-sr-x`.
fn mode(mode: u32) -> String {
    let kind = match kind(mode) {
        "file" => '-',
        "folder" => 'd',
        "link" => 'l',
        "pipe" => 'p',
        "socket" => 's',
        "character" => 'c',
        "block" => 'b',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 > 0 { 'r' } else { '-' });
        text.push(if bits & 2 > 0 { 'w' } else { '-' });
        text.push(match (mode & special > 0, bits & 1 > 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_as_ls_has_them() {
        for (bits, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_755, "-rwsr-xr-x"),
            (0o102_640, "-rw-r-S---"),
            (0o120_777, "lrwxrwxrwx"),
            (0o020_600, "crw-------"),
            (0, "?---------"),
        ] {
            assert_eq!(mode(bits), text);
        }
    }

    #[test]
    fn a_name_is_one_line() {
        let file = |name: &[u8]| File { name: name.to_vec(), ..File::default() };
        assert_eq!(name(&file(b"a\n\tb\xff\x1b"), "/x"), "a\\n\\tb\\xff\\x1b");
        assert_eq!(name(&file(b""), "/x"), "/x");
    }
}
