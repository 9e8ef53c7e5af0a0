//! What plugins say of themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use kelson_proto::v1::{VolumePlugin, VolumeProvider};
use tokio::task::JoinSet;
use tonic::Code;

use crate::csi::v1 as csi;
use crate::plugins::{Part, Refusal, call, has, made, silence};

/// Asks all of them side by side; sorted by id, and of one id the newest first.
pub async fn all(plugins: Vec<VolumePlugin>, deadline: Duration) -> Vec<VolumeProvider> {
    let mut asked = JoinSet::new();
    for plugin in plugins {
        asked.spawn(async move {
            let mut provider = VolumeProvider {
                id: plugin.id.clone(),
                service: plugin.service.clone(),
                kind: plugin.kind.clone(),
                socket: plugin.socket.clone(),
                ..VolumeProvider::default()
            };
            match tokio::time::timeout(deadline, ask(&plugin, deadline, &mut provider)).await {
                Ok(Ok(())) => {}
                Ok(Err(refusal)) => provider.error = refusal.failure.text,
                Err(_) => provider.error = silence(deadline),
            }
            (made(&plugin.socket), plugin, provider)
        });
    }
    let mut all = asked.join_all().await;
    all.sort_by(|(made_a, _, a), (made_b, _, b)| (&a.id, made_b, &a.socket).cmp(&(&b.id, made_a, &b.socket)));
    let mut served = BTreeSet::new();
    let mark = |(_, plugin, mut provider): (_, VolumePlugin, VolumeProvider)| {
        let parts = [Part::Node, Part::Controller];
        let its: Vec<bool> = parts.into_iter().map(|part| has(&plugin, part)).collect();
        if provider.error.is_empty() {
            for (index, has) in its.into_iter().enumerate() {
                provider.serves |= has && served.insert((plugin.id.clone(), index));
            }
        }
        provider
    };
    all.into_iter().map(mark).collect()
}

async fn ask(
    plugin: &VolumePlugin,
    deadline: Duration,
    provider: &mut VolumeProvider,
) -> Result<(), Refusal> {
    let info = call(plugin, deadline, csi::GetPluginInfoRequest {}).await?;
    (provider.name, provider.version) = (info.name, info.vendor_version);
    let mut capabilities = BTreeSet::new();
    if has(plugin, Part::Node) {
        let its = node_capabilities(plugin, deadline).await?;
        capabilities.extend(its.map(|one| one.as_str_name().to_owned()));
        let info = call(plugin, deadline, csi::NodeGetInfoRequest {}).await?;
        (provider.node_id, provider.most_volumes) = (info.node_id, info.max_volumes_per_node);
        provider.topology = info
            .accessible_topology
            .map(|topology| topology.segments.into_iter().collect())
            .unwrap_or_default();
    }
    if has(plugin, Part::Controller) {
        let its = controller_capabilities(plugin, deadline).await?;
        capabilities.extend(its.map(|one| one.as_str_name().to_owned()));
    }
    provider.capabilities = capabilities.into_iter().collect();
    Ok(())
}

/// What the node side of a plugin can do, as far as this version of the interface knows it.
///
/// # Errors
/// It does not answer.
pub async fn node_capabilities(
    plugin: &VolumePlugin,
    deadline: Duration,
) -> Result<impl Iterator<Item = csi::node_service_capability::rpc::Type>, Refusal> {
    let answer = call(plugin, deadline, csi::NodeGetCapabilitiesRequest {}).await?;
    Ok(answer.capabilities.into_iter().filter_map(|one| match one.r#type {
        Some(csi::node_service_capability::Type::Rpc(rpc)) => rpc.r#type.try_into().ok(),
        None => None,
    }))
}

/// What a controller can do, as far as this version of the interface knows it. A monolith need not have one: it can do
/// nothing then.
///
/// # Errors
/// It does not answer.
pub async fn controller_capabilities(
    plugin: &VolumePlugin,
    deadline: Duration,
) -> Result<impl Iterator<Item = csi::controller_service_capability::rpc::Type>, Refusal> {
    let answer = match call(plugin, deadline, csi::ControllerGetCapabilitiesRequest {}).await {
        Err(Refusal { code: Some(Code::Unimplemented), .. }) => Ok(Default::default()),
        other => other,
    }?;
    Ok(answer.capabilities.into_iter().filter_map(|one| match one.r#type {
        Some(csi::controller_service_capability::Type::Rpc(rpc)) => rpc.r#type.try_into().ok(),
        None => None,
    }))
}
