//! The lease of one `kelson-unpack`, and the end of those whose owner was killed.
//!
//! The lease keeps all that is used from garbage collection until the image's record refers to it. Its owner holds a
//! lock of the same name, taken before the lease is made: a lease without a locked file has nobody.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kelson_containerd::{CallError, Code, Containerd, Resource};

use crate::Context;
use crate::archive::Hasher;
use crate::error::UnpackError;
use crate::locks::Lock;

const PREFIX: &str = "kelson-unpack-";

pub struct Lease {
    pub id: String,
    /// All that is made with it belongs to the lease.
    pub containerd: Containerd,
    _lock: Lock,
}

impl Lease {
    /// Ends the leases of the dead, and makes one.
    pub async fn begin(context: &Context) -> Result<Self, UnpackError> {
        end_dead(context).await?;
        let id = format!("{PREFIX}{}", nonce());
        let lock = context.locks.take(&id).await?;
        // It never expires: containerd goes by the wall clock, which leaps by years when the host's time is set. The next
        // unpack ends a lease whose owner is dead.
        context.containerd.make_lease(&id, None).await?;
        Ok(Self { containerd: context.containerd.with_lease(&id)?, id, _lock: lock })
    }

    /// Keeps it from being taken, if it is there.
    pub async fn hold(&self, resource: Resource<'_>) -> Result<(), UnpackError> {
        Ok(self.containerd.hold(&self.id, resource).await?)
    }

    /// Gives back what nothing else refers to. A lease that stays is ended by the next. One that was killed just
    /// before this one began is dead by now, too.
    pub async fn end(self, context: &Context) {
        let _ = self.containerd.end_lease(&self.id).await;
        let _ = end_dead(context).await;
    }

    /// A name that nobody else uses.
    pub fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.id)
    }
}

/// Ends the leases whose owner does not live any more.
pub async fn end_dead(context: &Context) -> Result<(), UnpackError> {
    for id in context.containerd.leases_named(PREFIX).await? {
        if id.contains('/') {
            continue;
        }
        if let Some(_dead) = context.locks.try_take(&id)? {
            // It helps to tidy up, no more: on a full disk, say, the lease ends without it.
            let _ = leave_traces(context, &id).await;
            context.containerd.end_lease(&id).await?;
        }
    }
    Ok(())
}

/// Gives garbage collection something to take from both stores when this lease ends.
///
/// Objects that containerd was making at a power cut can be on the disk without being in its records.
/// Containerd looks for such objects only in a store of which garbage collection takes something (`dirtySS`
/// and `dirtyCS` in its metadata/db.go); and the lease of the process that died then may hold nothing yet.
async fn leave_traces(context: &Context, id: &str) -> Result<(), CallError> {
    let containerd = context.containerd.with_lease(id)?;
    let name = format!("{id}-trace");
    let snapshotter = containerd.snapshotter().await?;
    match containerd.prepare(&snapshotter.name, &name, "").await {
        Err(error) if !error.is(Code::AlreadyExists) => return Err(error),
        _ => {}
    }
    let bytes = name.clone().into_bytes();
    let digest = Hasher::of(&bytes).to_string();
    let mut blob = containerd.write_blob(&name, &digest, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    blob.bytes(bytes).await?;
    blob.commit(HashMap::new()).await
}

/// Digits that no other process has, in this boot or another. As good as the kernel has them now: early in a boot it may
/// take long to gather better ones, and nobody's secret depends on these.
fn nonce() -> String {
    let mut bytes = [0_u8; 16];
    // SAFETY: as many bytes as there are.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_INSECURE) };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Kernels before 5.6 do not know the flag: the time and the process are what is left then.
    let moment = since.as_nanos().wrapping_mul(1 << 22).wrapping_add(u128::from(std::process::id()));
    format!("{:032x}", u128::from_le_bytes(bytes) ^ moment)
}
