//! The store of a fleet as its operator and its issuer use it: without a host between.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcd_client::{AuthClient, Client, KeyValue, Permission, PermissionType, UserAddOptions};
use kelson_fleet::Connection;
use kelson_fleet::certificates::{self, Access};
use kelson_spec::fleet::FleetSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The name of the role that may do everything, and of the user that etcd demands to have it.
pub const ROOT: &str = "root";
/// The files of `fleet init`.
pub const CA: &str = "ca.pem";
pub const SETTINGS: &str = "fleet.json";
pub const ISSUER: &str = "issuer";

/// The folder of `fleet init`.
#[derive(Debug, Clone, clap::Args)]
pub struct Folder {
    /// The folder of `fleet init`
    #[arg(long = "access", value_name = "DIR", default_value = "fleet")]
    path: PathBuf,
}

/// Where the fleet is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub endpoints: Vec<String>,
    pub prefix: String,
}

impl Settings {
    /// For [`ROOT`] or [`ISSUER`].
    pub fn of(self, folder: &Path, user: &str) -> FleetSpec {
        FleetSpec {
            endpoints: self.endpoints,
            prefix: self.prefix,
            ca: Some(folder.join(CA)),
            certificate: Some(folder.join(format!("{user}.pem"))),
            key: Some(folder.join(format!("{user}.key"))),
            ..FleetSpec::default()
        }
    }
}

/// A connection with the store.
pub struct Store {
    /// Held open.
    _connection: Connection,
    pub client: Client,
    pub access: Access,
}

impl Folder {
    /// Connects as [`ROOT`] or [`ISSUER`].
    pub async fn connect(&self, user: &str) -> Result<Store, Failure> {
        let path = self.path.join(SETTINGS);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::Failed(format!(
                "cannot read {}: {error}; --access names the folder that `kelsonctl fleet init` has made",
                path.display()
            ))
        })?;
        let settings: Settings = serde_json::from_str(&text)
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        Store::new(settings.of(&self.path, user)).await
    }
}

impl Store {
    pub async fn new(spec: FleetSpec) -> Result<Store, Failure> {
        let connection = certificates::connect(&spec).await.map_err(Failure::NotReachable)?;
        let (client, access) = (connection.client.clone(), Access::new(&spec.prefix));
        Ok(Store { _connection: connection, client, access })
    }

    /// The value of a key, and its revision; 0: it is not there.
    pub async fn read<T: DeserializeOwned>(&mut self, key: &str) -> Result<(Option<T>, i64), Failure> {
        let mut answer = call("read", key, self.client.get(key, None)).await?;
        let Some(value) = answer.take_kvs().into_iter().next() else { return Ok((None, 0)) };
        Ok((Some(parse(&value)?), value.mod_revision()))
    }

    /// Has a user with a role of its own, which may do this. One that is there already may do it as well from then on.
    pub async fn user(&self, user: &str, permissions: &[certificates::Permission]) -> Result<(), Failure> {
        let mut auth: AuthClient = self.client.auth_client();
        exists(call("add the role", user, auth.role_add(user)).await.map(drop))?;
        for permission in permissions {
            call("grant to", user, auth.role_grant_permission(user, granted(permission))).await?;
        }
        self.user_of(user, user).await
    }

    /// Has a user with this role.
    pub async fn user_of(&self, user: &str, role: &str) -> Result<(), Failure> {
        let mut auth = self.client.auth_client();
        let options = UserAddOptions::new().with_no_pwd();
        exists(call("add the user", user, auth.user_add(user, "", Some(options))).await.map(drop))?;
        call("grant its role to", user, auth.user_grant_role(user, role)).await.map(drop)
    }

    /// Removes a user and its role, where they are there. From then on its certificates are of no use.
    pub async fn remove_user(&self, user: &str) -> Result<(), Failure> {
        let mut auth = self.client.auth_client();
        missing(call("remove the user", user, auth.user_delete(user)).await.map(drop))?;
        missing(call("remove the role", user, auth.role_delete(user)).await.map(drop))
    }
}

fn granted(permission: &certificates::Permission) -> Permission {
    let kind = if permission.may_write { PermissionType::Readwrite } else { PermissionType::Read };
    let own = Permission::new(kind, permission.from.clone());
    match &permission.end {
        Some(end) => own.with_range_end(end.clone()),
        None => own,
    }
}

/// The value of a key.
fn parse<T: DeserializeOwned>(value: &KeyValue) -> Result<T, Failure> {
    serde_json::from_slice(value.value())
        .map_err(|error| Failure::Failed(format!("the key {} in etcd: {error}", value.key().escape_ascii())))
}

/// What is stored of it.
pub fn text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Failed(error.to_string()))
}

/// The answer of the store. `what` fails with which key or user.
pub async fn call<T>(
    what: &str,
    of: &str,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Failure> {
    let answer = certificates::called(call).await;
    answer.map_err(|error| Failure::Failed(format!("etcd: cannot {what} {of}: {error}")))
}

fn exists(done: Result<(), Failure>) -> Result<(), Failure> {
    tolerate(done, "already exists")
}

fn missing(done: Result<(), Failure>) -> Result<(), Failure> {
    tolerate(done, "not found")
}

fn tolerate(done: Result<(), Failure>, what: &str) -> Result<(), Failure> {
    match done {
        Err(Failure::Failed(text)) if text.ends_with(what) => Ok(()),
        done => done,
    }
}

/// A number for the name of a user, which nobody has yet.
pub fn number() -> Result<u64, Failure> {
    kelson_sys::random::number()
        .ok_or_else(|| Failure::Failed("the system has no randomness yet; try again".to_owned()))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads for how long something is good: a second to a hundred years.
pub fn parse_validity(text: &str) -> Result<Duration, Failure> {
    match crate::output::time::parse(text)? {
        valid if valid < Duration::from_secs(1) => {
            Err(Failure::Usage("that is less than a second".to_owned()))
        }
        valid if valid > 36_500 * crate::pki::DAY => {
            Err(Failure::Usage("that is more than 100 years (36500d)".to_owned()))
        }
        valid => Ok(valid),
    }
}
