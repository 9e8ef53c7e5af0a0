//! One step of a volume, as the [core](crate::core) wants it done, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelson_helper::BoxFuture;
use kelson_proto::v1::{VolumeAction, VolumeActionDone, VolumePlugin, VolumeProvider, VolumeStatistics};
use kelson_spec::volume_file::{Opaque, VolumeFile};
use kelson_sys::text;
use tokio::sync::oneshot;

use crate::path::HostPath;
use crate::record::Record;
use crate::usage::Usage;

/// Bytes of the text of a failure.
const TEXT_MAX: usize = 400;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Job {
    pub volume: String,
    pub step: Step,
    /// Written before the step.
    pub record: Option<Record>,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// Reads the file of the volume, and asks its plugin what it can do.
    Look,
    /// Whether what the record has as published is still there.
    Verify(Place),
    Attach {
        facts: Arc<Facts>,
        usage: Usage,
    },
    Stage {
        facts: Arc<Facts>,
        context: Context,
        stage: HostPath,
        usage: Usage,
    },
    Publish {
        facts: Arc<Facts>,
        context: Context,
        stage: Option<HostPath>,
        place: Place,
    },
    Unpublish {
        of: Provided,
        place: Place,
    },
    Unstage {
        of: Provided,
        stage: HostPath,
    },
    Detach {
        of: Provided,
        node: String,
    },
    /// Writes the record, and nothing else.
    Record,
}

/// Where a volume is published, and as what.
#[derive(Debug, Clone)]
pub struct Place {
    pub target: HostPath,
    pub usage: Usage,
}

/// How a volume is in use.
#[derive(Debug, Default)]
pub struct InUse {
    /// Those that have it or want it, sorted.
    pub services: Vec<String>,
    /// Something of it is not undone.
    pub is_left: bool,
    /// A service has it or wants it, or something is not undone.
    pub is_known: bool,
    /// Where it is published, and staged.
    pub place: Option<Place>,
    pub stage: Option<HostPath>,
}

/// A published volume, of which is asked how full it is.
#[derive(Debug, Clone)]
pub struct Subject {
    pub volume: String,
    /// By which its plugin knows it.
    pub id: String,
    pub place: Place,
    pub stage: Option<HostPath>,
}

/// By what a plugin knows a volume.
#[derive(Debug, Clone)]
pub struct Provided {
    pub plugin: String,
    pub id: String,
}

/// What the controller of a plugin gave for its node; never written.
pub type Context = Arc<Opaque>;

/// The volume and its plugin, as they are now.
#[derive(Debug, Clone)]
pub struct Facts {
    pub file: VolumeFile,
    /// The folder of the plugin on the host.
    pub folder: HostPath,
    /// It has `STAGE_UNSTAGE_VOLUME`.
    pub stages: bool,
    /// By which its controller knows this node. `None`: no controller has `PUBLISH_UNPUBLISH_VOLUME`.
    pub node: Option<String>,
}

impl Step {
    /// The call of the plugin, or what else is done.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Look => "NodeGetCapabilities",
            Step::Verify(_) => "mountinfo",
            Step::Attach { .. } => "ControllerPublishVolume",
            Step::Stage { .. } => "NodeStageVolume",
            Step::Publish { .. } => "NodePublishVolume",
            Step::Unpublish { .. } => "NodeUnpublishVolume",
            Step::Unstage { .. } => "NodeUnstageVolume",
            Step::Detach { .. } => "ControllerUnpublishVolume",
            Step::Record => "record",
        }
    }
}

/// What came of a step.
#[derive(Debug)]
pub enum Outcome {
    Looked(Facts),
    Present(bool),
    Attached(BTreeMap<String, String>),
    Done {
        /// Something that an operator should know.
        note: Option<String>,
    },
    Failed(Failure),
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed, where it was not the call that the step is named by.
    pub step: Option<&'static str>,
    pub text: String,
    /// Another try makes no difference.
    pub is_final: bool,
    /// The plugin may have done something.
    pub reached: bool,
    /// The plugin has lost the stage from which the volume was to be published.
    pub unstaged: bool,
}

impl Failure {
    /// Of something before the plugin was asked.
    pub fn before(text: &str) -> Failure {
        Failure { step: None, text: shown(text), is_final: false, reached: false, unstaged: false }
    }

    /// Of the call.
    pub fn after(text: &str) -> Failure {
        Failure { reached: true, ..Failure::before(text) }
    }

    pub fn last(self) -> Failure {
        Failure { is_final: true, ..self }
    }

    pub fn of(self, step: &'static str) -> Failure {
        Failure { step: Some(step), ..self }
    }
}

/// A plugin is another program: its text is cut and has no control characters.
fn shown(text: &str) -> String {
    text::harmless(text::start_of(text, TEXT_MAX), Some(' ')).collect()
}

/// That the step is not wanted any more.
pub struct Cancelled(pub oneshot::Receiver<()>);

impl Cancelled {
    /// Returns once it is not wanted.
    pub async fn wait(self) {
        let _ = self.0.await;
    }
}

/// Where steps are done: this host and its plugins, or a model of them.
pub trait World: Send + Sync + 'static {
    /// Replaces the plugins that there are.
    fn set_plugins(&self, plugins: Vec<VolumePlugin>);

    /// Does a step. With `cancelled` it ends soon, but not before the record is written.
    fn perform(&self, job: Job, cancelled: Cancelled) -> BoxFuture<'static, Outcome>;

    /// Does what an operator asks of a volume, which is in use so.
    fn act(&self, action: VolumeAction, in_use: InUse) -> BoxFuture<'static, VolumeActionDone>;

    /// Asks all plugins.
    fn providers(&self) -> BoxFuture<'static, Vec<VolumeProvider>>;

    /// Asks a plugin how full its volumes are, `at_once` side by side.
    fn statistics(
        &self,
        plugin: String,
        subjects: Vec<Subject>,
        at_once: usize,
    ) -> BoxFuture<'static, Vec<(String, VolumeStatistics)>>;
}
