//! Plans of actions on many hosts: they are read from the store, and those of this host are written there.

use etcd_client::{Compare, CompareOp, DeleteOptions, Error, KeyValue, KvClient, Txn, TxnOp};
use kelson_proto::v1::{FleetPlanPart, FleetPlansRequest, PutFleetPlanRequest, RemoveFleetPlanRequest};

use crate::key::{Keys, after, end_of, is_host, is_name, plan_part};
use crate::range::{self, Range};

/// The most parts of a page.
const PAGE_MAX: usize = 100;

/// The parts of one plan, or the first part of each, and whether there may be more.
///
/// # Errors
/// See [`Error`].
pub async fn read(
    reader: &mut KvClient,
    keys: &Keys,
    request: &FleetPlansRequest,
) -> Result<(Vec<FleetPlanPart>, bool), Error> {
    let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    let limit = limit.unwrap_or(PAGE_MAX);
    if request.plan.is_empty() {
        return heads(reader, keys, &request.after, limit).await;
    }
    let Some((host, name)) =
        request.plan.split_once('/').filter(|(host, name)| is_host(host) && is_name(name))
    else {
        return Ok((Vec::new(), false));
    };
    let limit = u32::try_from(limit).unwrap_or_default();
    let place = (keys.plans(), request.after.as_str());
    range::read(reader, &keys.plan(host, name), place, limit, |value| part(keys, value)).await
}

/// The first part of each plan. The others, which may be many, are not read.
async fn heads(
    reader: &mut KvClient,
    keys: &Keys,
    place: &str,
    limit: usize,
) -> Result<(Vec<FleetPlanPart>, bool), Error> {
    let (mut from, end) = (keys.plans().as_bytes().to_vec(), end_of(keys.plans()));
    if !place.is_empty() {
        from = from.max(end_of(&format!("{}{place}/", keys.plans())));
    }
    let mut found = Vec::new();
    while found.len() < limit {
        let (values, _) = Range::new(from, end.clone()).part(reader, 1).await?;
        let Some(value) = values.first() else { return Ok((found, false)) };
        from = match part(keys, value) {
            Some(part) => {
                let next = end_of(&keys.plan(&part.host, &part.name));
                found.extend((part.part == 0).then_some(part));
                next
            }
            None => after(value.key()),
        };
    }
    Ok((found, true))
}

fn part(keys: &Keys, value: &KeyValue) -> Option<FleetPlanPart> {
    let (host, name, part) = keys.parse_plan(value.key())?;
    Some(FleetPlanPart { host, name, part, revision: value.mod_revision(), value: value.value().to_vec() })
}

/// Where the page after this part begins.
pub fn cursor(request: &FleetPlansRequest, last: &FleetPlanPart) -> String {
    let FleetPlanPart { host, name, part, .. } = last;
    match request.plan.is_empty() {
        true => format!("{host}/{name}"),
        false => format!("{host}/{name}/{}", plan_part(*part)),
    }
}

/// Writes a part, unless the first part has another revision than the writer knows. The revision of the first part; 0:
/// nothing was written.
///
/// # Errors
/// See [`Error`].
pub async fn put(
    store: &mut KvClient,
    keys: &Keys,
    host: &str,
    request: PutFleetPlanRequest,
) -> Result<i64, Error> {
    let PutFleetPlanRequest { name, part, revision, value } = request;
    let prefix = keys.plan(host, &name);
    let put = TxnOp::put(format!("{prefix}{}", plan_part(part)), value, None);
    let written = guarded(store, &prefix, revision, put).await?;
    Ok(match part {
        0 => written,
        _ if written == 0 => 0,
        _ => revision,
    })
}

/// Removes all parts, unless the first one has another revision than the caller knows. 0: nothing was removed.
///
/// # Errors
/// See [`Error`].
pub async fn remove(
    store: &mut KvClient,
    keys: &Keys,
    host: &str,
    request: RemoveFleetPlanRequest,
) -> Result<i64, Error> {
    let prefix = keys.plan(host, &request.name);
    let options = DeleteOptions::new().with_range(end_of(&prefix));
    let delete = TxnOp::delete(prefix.clone(), Some(options));
    guarded(store, &prefix, request.revision, delete).await
}

/// The revision of the change; 0: the first part has another one than `revision`.
async fn guarded(store: &mut KvClient, prefix: &str, revision: i64, change: TxnOp) -> Result<i64, Error> {
    let head = format!("{prefix}{}", plan_part(0));
    let compare = Compare::mod_revision(head, CompareOp::Equal, revision);
    let answer = store.txn(Txn::new().when(vec![compare]).and_then(vec![change])).await?;
    let written = answer.header().map(|header| header.revision()).unwrap_or_default();
    Ok(if answer.succeeded() { written } else { 0 })
}
