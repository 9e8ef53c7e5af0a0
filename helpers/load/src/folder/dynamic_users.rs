//! `user: dynamic`: each file was read alone, and no two services may have the same id.

use std::collections::BTreeSet;

use super::Reading;
use crate::accounts::Accounts;
use kelson_spec::service::{Credentials, ServiceSpec};
use kelson_sys::ordered;

impl Reading {
    /// Gives each dynamic user an id that no other service has. The order of their names decides, so that the same files lead
    /// to the same ids.
    pub(super) fn dynamic_users(&mut self) {
        let is_dynamic = |spec: &ServiceSpec| spec.user.as_ref().is_some_and(Credentials::is_dynamic);
        let specs = self.services.iter_mut().map(|decoded| &mut decoded.spec);
        let (mut dynamic, others): (Vec<_>, Vec<_>) = specs.partition(|spec| is_dynamic(spec));
        if dynamic.is_empty() {
            return;
        }
        let none = Accounts::default();
        let accounts = self.context.accounts().and_then(|found| found.as_ref().ok()).unwrap_or(&none);
        let others = others.iter().filter_map(|spec| spec.user.as_ref());
        let mut taken: BTreeSet<u32> = others.flat_map(|user| [user.uid, user.gid]).collect();
        ordered::sort_by(&mut dynamic, |a, b| a.name.cmp(&b.name));
        for spec in dynamic {
            let Some(id) = accounts.free_ids(&spec.name).find(|id| !taken.contains(id)) else { continue };
            taken.insert(id);
            if let Some(user) = &mut spec.user {
                user.gid = if user.gid == user.uid { id } else { user.gid };
                user.uid = id;
            }
        }
    }
}
