//! The common part of `reboot`, `poweroff` and `halt`: ask, then show the stop order until the connection
//! ends.

use kelson_proto::v1::ShutdownRequest;
use kelson_proto::v1::shutdown_request::Action;

use super::events;
use crate::call::Call;
use crate::failure::{Failure, answer};
use crate::follow::from_now;
use crate::output::{escape, object, print};

/// The arguments that the three have in common.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Ending {
    /// Return at once
    #[arg(long)]
    no_wait: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Ending {
    /// The verb of the question, where it is to be asked.
    pub fn question(&self, verb: &'static str) -> Option<&'static str> {
        (!self.yes).then_some(verb)
    }
}

/// One of two commands: the comment that is its help, what it asks for, and the verb of the question.
macro_rules! command {
    ($(#[$about:meta])* $action:ident, $verb:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, clap::Args)]
        #[command(verbatim_doc_comment)]
        pub struct Arguments {
            #[command(flatten)]
            ending: $crate::commands::ending::Ending,
        }

        impl $crate::call::Run for Arguments {
            fn confirmed(&self) -> Option<&'static str> {
                self.ending.question($verb)
            }

            async fn run(self, call: &$crate::call::Call) -> Result<(), $crate::failure::Failure> {
                use kelson_proto::v1::shutdown_request::Action;
                $crate::commands::ending::end(call, Action::$action, self.ending).await
            }
        }
    };
}
pub(super) use command;

/// Asks for the end of the host's run and shows how it goes.
pub async fn end(call: &Call, action: Action, ending: Ending) -> Result<(), Failure> {
    let client = call.client()?;
    let follow = async { client.services().events(from_now(&[])).await };
    // Opened first, so that not even the first event is missed.
    let mut stream = if ending.no_wait { None } else { follow.await.ok().map(tonic::Response::into_inner) };

    let mut request =
        ShutdownRequest { reason: reason(ending.reason.as_deref()), ..ShutdownRequest::default() };
    request.set_action(action);
    let message = answer(client.machine().shutdown(request)).await?.message;
    let line = || format!("{}\n", escape(&message));
    print(&call.item(&object!(message: message), line)?)?;
    // However the stream ends: the host is going away.
    while let Some(Ok(Some(batch))) = match &mut stream {
        Some(stream) => Some(stream.message().await),
        None => None,
    } {
        for event in &batch.events {
            print(&events::item(call, event)?)?;
        }
    }
    Ok(())
}

/// The reason in words, for the log: the caller, and the reason given.
pub fn reason(given: Option<&str>) -> String {
    // The server knows the user and the process; it cannot know who stands behind sudo.
    let who = match std::env::var("SUDO_USER") {
        Ok(user) if !user.is_empty() => format!("kelsonctl, sudo by {user}"),
        _ => "kelsonctl".to_owned(),
    };
    match given {
        Some(given) if !given.is_empty() => format!("{given}, by {who}"),
        _ => who,
    }
}
