//! `fleet remove`: ends the certificates of a host.

use etcd_client::{DeleteOptions, Txn, TxnOp};
use kelson_fleet::certificates::Member;

use super::access::{Folder, ROOT, call as called};
use super::done::Done;
use crate::call::Call;
use crate::failure::Failure;

#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    /// The name of the host in the fleet
    #[arg(value_name = "HOST")]
    host: String,
}

pub async fn run(call: &Call, Arguments { folder, host }: Arguments) -> Result<(), Failure> {
    let mut root = folder.connect(ROOT).await?;
    let key = root.access.member(&host);
    let (Some(member), _) = root.read::<Member>(&key).await? else {
        return Err(Failure::Failed(format!(
            "no host {host} has got a certificate from the issuer of the fleet"
        )));
    };
    // At first: a stolen key would write again.
    root.remove_user(&member.user).await?;
    let below = Some(DeleteOptions::new().with_prefix());
    let access = &root.access;
    let mut gone = vec![
        TxnOp::delete(access.host(&host), None),
        TxnOp::delete(access.request(&member.user, &host), None),
        TxnOp::delete(access.answer(&member.user, &host), None),
    ];
    gone.extend(
        member.services.iter().map(|name| TxnOp::delete(access.of_service(name, &host), below.clone())),
    );
    called("remove what is registered of", &host, root.client.txn(Txn::new().and_then(gone))).await?;
    called("remove", &key, root.client.delete(key.as_str(), None)).await?;
    let mut done = Done::default();
    done.add(format!(
        "removed {host}: its certificates are of no use any more, and a token lets the name in again"
    ));
    done.show(call)
}
