//! The Container Storage Interface, version 1.13: generated from `proto/csi.proto`.

use prost::Message;

/// Version 1.
#[allow(clippy::all, clippy::pedantic, clippy::restriction, dead_code, missing_docs, rustdoc::all)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));
}

/// The request of a call.
pub trait Call: Message {
    type Response: Message + Default;
    /// Of its method.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ident => $response:ident, $path:literal;)*) => {
        $(impl Call for v1::$request {
            type Response = v1::$response;
            const PATH: &'static str = concat!("/csi.v1.", $path);
        })*
    };
}

calls! {
    GetPluginInfoRequest => GetPluginInfoResponse, "Identity/GetPluginInfo";
    ProbeRequest => ProbeResponse, "Identity/Probe";
    ControllerGetCapabilitiesRequest => ControllerGetCapabilitiesResponse, "Controller/ControllerGetCapabilities";
    ControllerPublishVolumeRequest => ControllerPublishVolumeResponse, "Controller/ControllerPublishVolume";
    ControllerUnpublishVolumeRequest => ControllerUnpublishVolumeResponse, "Controller/ControllerUnpublishVolume";
    CreateVolumeRequest => CreateVolumeResponse, "Controller/CreateVolume";
    DeleteVolumeRequest => DeleteVolumeResponse, "Controller/DeleteVolume";
    CreateSnapshotRequest => CreateSnapshotResponse, "Controller/CreateSnapshot";
    DeleteSnapshotRequest => DeleteSnapshotResponse, "Controller/DeleteSnapshot";
    ListSnapshotsRequest => ListSnapshotsResponse, "Controller/ListSnapshots";
    ControllerExpandVolumeRequest => ControllerExpandVolumeResponse, "Controller/ControllerExpandVolume";
    NodeGetCapabilitiesRequest => NodeGetCapabilitiesResponse, "Node/NodeGetCapabilities";
    NodeGetInfoRequest => NodeGetInfoResponse, "Node/NodeGetInfo";
    NodeStageVolumeRequest => NodeStageVolumeResponse, "Node/NodeStageVolume";
    NodeUnstageVolumeRequest => NodeUnstageVolumeResponse, "Node/NodeUnstageVolume";
    NodePublishVolumeRequest => NodePublishVolumeResponse, "Node/NodePublishVolume";
    NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse, "Node/NodeUnpublishVolume";
    NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse, "Node/NodeGetVolumeStats";
    NodeExpandVolumeRequest => NodeExpandVolumeResponse, "Node/NodeExpandVolume";
}
