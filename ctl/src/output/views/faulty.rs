//! A file with mistakes, as programs read it.

use kelson_proto::v1;
use serde::Serialize;

use crate::output::time;

/// A file in which the last reading of the files found mistakes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultyFile {
    pub mistakes: Vec<FileMistake>,
    /// False: there is no earlier version, and the service has failed.
    pub earlier_in_use: bool,
    /// When that version was read last; null where that is not known.
    pub earlier_read: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FileMistake {
    pub file: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub line: u32,
    pub column: u32,
    pub message: String,
}

/// A warning of `health`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileWarning {
    /// Null: it is no service's.
    pub service: Option<String>,
    #[serde(flatten)]
    pub file: FaultyFile,
}

impl From<&v1::FaultyFile> for FaultyFile {
    fn from(file: &v1::FaultyFile) -> FaultyFile {
        let mistakes = file.mistakes.iter().map(|mistake| FileMistake {
            file: mistake.file.clone(),
            line: mistake.line,
            column: mistake.column,
            message: mistake.message.clone(),
        });
        FaultyFile {
            mistakes: mistakes.collect(),
            earlier_in_use: file.earlier_in_use,
            earlier_read: file.earlier_read.as_ref().map(time::rfc3339),
        }
    }
}

impl From<&v1::FileWarning> for FileWarning {
    fn from(warning: &v1::FileWarning) -> FileWarning {
        FileWarning {
            service: super::some(&warning.service),
            file: warning.file.as_ref().unwrap_or(&v1::FaultyFile::default()).into(),
        }
    }
}
