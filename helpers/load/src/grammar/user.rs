//! `user`: of a process one of the host, looked up there; of a container one of its image.

use super::container::container_user;
use super::mapping::Mapping;
use crate::accounts::{AccountError, Accounts};
use crate::decode::{Decoder, quoted};
use crate::json::Json;
use crate::tree::Node;
use kelson_spec::service::{Credentials, ServiceSpec, Workload};

pub fn user(mapping: Mapping<ServiceSpec>) -> Mapping<ServiceSpec> {
    mapping.own(
        (
            "user",
            "PID 1's (root); of a container, the image's",
            "`user` or `user:group`, as names or numbers; `dynamic`: a [user of its own](#user)",
        ),
        || (container_user().kind)(),
        |d, seen, spec| match &mut spec.workload {
            // The image names the user.
            Workload::Container(container) => {
                container.user = seen.read(d, "user", |d, node| container_user().decode(d, node));
            }
            _ if seen.has("container") => {}
            _ => spec.user = seen.read(d, "user", |d, node| d.user(node)),
        },
        |spec, _| match (&spec.user, spec.container().and_then(|container| container.user.as_ref())) {
            (Some(user), _) if user.is_dynamic() && user.gid == user.uid => Json::text(&user.name),
            (Some(user), _) => Json::Text(format!("{}:{}", user.name, user.gid)),
            (None, Some(user)) => Json::text(user),
            (None, None) => Json::Null,
        },
    )
}

impl Decoder<'_> {
    fn user(&mut self, node: &Node) -> Option<Credentials> {
        let text = self.word(node)?;
        let service = self.stem.clone();
        self.account(node, &text, |accounts| accounts.of_service(&text, &service))
    }

    /// The user and the group that `USER` or `USER:GROUP` names.
    pub(super) fn credentials(&mut self, node: &Node, text: &str) -> Option<Credentials> {
        self.account(node, text, |accounts| accounts.resolve(text))
    }

    fn account(
        &mut self,
        node: &Node,
        text: &str,
        resolve: impl FnOnce(&Accounts) -> Result<Credentials, AccountError>,
    ) -> Option<Credentials> {
        let resolved = match self.context.accounts() {
            None => self.context.unresolved(text, resolve(&Accounts::default())),
            Some(Ok(accounts)) => resolve(accounts),
            Some(Err((file, error))) => {
                let text = format!("{} cannot be looked up: {file}: {error}", quoted(text));
                return self.refuse(node, text);
            }
        };
        resolved.map_err(|message| self.wrong(node.at, message)).ok()
    }
}
