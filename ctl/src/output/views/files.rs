//! `ls` and `cp`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::some;
use crate::output::time;

/// One entry of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct File {
    /// Below the path that was asked for; empty: that itself. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// `file`, `folder`, `link`, `pipe`, `socket`, `character`, `block`; empty where it is not known.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Permissions, in octal.
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub modified: Option<String>,
    /// Where a symbolic link leads.
    pub link: Option<String>,
    /// Of a device, as the next.
    pub major: Option<u32>,
    pub minor: Option<u32>,
    /// Why nothing more is known of it.
    pub trouble: Option<String>,
}

/// The word for a type.
pub fn kind(mode: u32) -> &'static str {
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

impl From<&v1::File> for File {
    fn from(file: &v1::File) -> File {
        let kind = kind(file.mode);
        let device = matches!(kind, "character" | "block");
        File {
            name: String::from_utf8_lossy(&file.name).into_owned(),
            kind,
            mode: format!("{:04o}", file.mode & 0o7777),
            uid: file.uid,
            gid: file.gid,
            size: file.size,
            modified: file.modified.as_ref().map(time::rfc3339),
            link: some(&String::from_utf8_lossy(&file.link)),
            major: device.then_some(file.major),
            minor: device.then_some(file.minor),
            trouble: some(&file.trouble),
        }
    }
}

/// What `cp` copied.
#[derive(Debug, Clone, Serialize)]
pub struct Copy {
    pub files: u64,
    /// Of these files.
    pub bytes: u64,
    /// What is not there, and why.
    pub troubles: Vec<String>,
}
