//! `whoami`: as whom a host takes the calls of kelsonctl.

use kelson_proto::v1::{CallerRequest, CallerResponse};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, escape, object};

/// Show your identity and role as the host sees them
///
/// The role decides which commands you may use; `local` may use all. The
/// identity is the one that the host has verified: the calling process, or the
/// certificate.
///
/// Examples:
///   kelsonctl whoami
///   kelsonctl --nodes edge-1,edge-2 whoami
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let caller = answer(call.client()?.machine().caller(CallerRequest {})).await?;
        let view = object!(identity: caller.identity, role: caller.role);
        call.show(&view, || match call.node {
            None => Page::Text(format!(
                "caller  {}\nrole    {}\n",
                escape(&caller.identity),
                escape(&caller.role)
            )),
            Some(_) => Page::Table(table(&caller)),
        })
    }
}

fn table(caller: &CallerResponse) -> Table {
    Table::of([caller]).left("ROLE", |caller| &caller.role).left("CALLER", |caller| &caller.identity).into()
}
