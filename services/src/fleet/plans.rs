//! Plans of actions on many hosts: they are in the store, and only clients know what they mean.

use kelson_proto::v1;

use super::members::Question;
use super::{Fleet, NoAnswer};

impl Fleet {
    /// A page of plans.
    ///
    /// # Errors
    /// There is no fleet, the helper does not answer, or the store does not.
    pub async fn plans(&self, request: v1::FleetPlansRequest) -> Result<v1::FleetPage, NoAnswer> {
        self.question(Question::Plans(request)).await
    }

    /// Writes a part of a plan of this host. The revision of its first part; `None`: it was another one, and nothing was
    /// written. A helper that dies meanwhile may write it twice, and then the second answer is `None`.
    ///
    /// # Errors
    /// There is no fleet, the helper does not answer, or the store does not. The part may be written then.
    pub async fn put_plan(&self, request: v1::PutFleetPlanRequest) -> Result<Option<i64>, NoAnswer> {
        self.changed(Question::PutPlan(request)).await
    }

    /// Removes a plan of this host. `None`: its first part had another revision.
    ///
    /// # Errors
    /// As [`Fleet::put_plan`].
    pub async fn remove_plan(&self, request: v1::RemoveFleetPlanRequest) -> Result<Option<i64>, NoAnswer> {
        self.changed(Question::RemovePlan(request)).await
    }

    async fn changed(&self, question: Question) -> Result<Option<i64>, NoAnswer> {
        let revision = self.question(question).await?.revision;
        Ok((revision != 0).then_some(revision))
    }
}
