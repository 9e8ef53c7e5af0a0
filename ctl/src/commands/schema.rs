//! `schema`: what may stand in a file, for editors.

use kelson_load::files;
use kelson_load::schema::json;

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::print;

/// Print the JSON schema of a file, for editors
///
/// An editor with a YAML language server checks a file by the schema and shows
/// the meaning of each key, if the first line of the file names the schema:
///   # yaml-language-server: $schema=../service.schema.json
/// kelsonctl validate checks the rules between files.
///
/// Examples:
///   kelsonctl schema service > /etc/kelson/service.schema.json
///   kelsonctl schema group > /etc/kelson/group.schema.json
///   kelsonctl schema machine > /etc/kelson/machine.schema.json
///   kelsonctl schema volume > /etc/kelson/volume-file.schema.json
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The file
    #[arg(value_enum)]
    file: File,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum File {
    Service,
    Group,
    Machine,
    Volume,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, _: &Call) -> Result<(), Failure> {
        let root = match self.file {
            File::Service => files::service(),
            File::Group => files::group(),
            File::Machine => files::machine(),
            File::Volume => files::volume(),
        };
        print(&json::schema(&root))
    }
}
