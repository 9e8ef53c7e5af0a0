//! Plans of actions on many hosts, in the store of the fleet.

use std::time::SystemTime;

use kelson_proto::v1;
use kelson_services::fleet::{Fleet, NoAnswer};
use kelson_services::spec::names::{LONGEST_NAME, is_name};
use tonic::Status;

/// Parts of one answer.
const PAGE: u32 = 100;
/// The longest place in a list, in bytes: three names.
const PLACE_MAX: usize = 1024;
const PART_MAX: u32 = 1023;
/// The longest value of a part: it fits into a message of the helper.
const VALUE_MAX: usize = 6 << 10;

pub async fn list(fleet: &Fleet, request: v1::FleetPlansRequest) -> Result<v1::FleetPlansResponse, Status> {
    if request.plan.len().max(request.after.len()) > PLACE_MAX {
        return Err(Status::invalid_argument(format!("a place has more than {PLACE_MAX} bytes")));
    }
    let limit = if request.limit == 0 { PAGE } else { request.limit.min(PAGE) };
    let page = fleet.plans(v1::FleetPlansRequest { limit, ..request }).await.map_err(silent)?;
    let time = Some(SystemTime::now().into());
    Ok(v1::FleetPlansResponse { parts: page.plans, cursor: page.cursor, time })
}

pub async fn put(
    fleet: &Fleet,
    request: v1::PutFleetPlanRequest,
) -> Result<v1::PutFleetPlanResponse, Status> {
    named(&request.name)?;
    if request.part > PART_MAX || request.value.len() > VALUE_MAX {
        return Err(Status::invalid_argument(format!(
            "a plan has parts 0 to {PART_MAX} of at most {VALUE_MAX} bytes"
        )));
    }
    let revision = fleet.put_plan(request).await.map_err(silent)?.ok_or_else(changed)?;
    Ok(v1::PutFleetPlanResponse { revision, time: Some(SystemTime::now().into()) })
}

pub async fn remove(
    fleet: &Fleet,
    request: v1::RemoveFleetPlanRequest,
) -> Result<v1::RemoveFleetPlanResponse, Status> {
    named(&request.name)?;
    fleet.remove_plan(request).await.map_err(silent)?.ok_or_else(changed)?;
    Ok(v1::RemoveFleetPlanResponse {})
}

fn named(name: &str) -> Result<(), Status> {
    match is_name(name) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "a plan has a name of small letters, digits and -, no - first, at most {LONGEST_NAME}"
        ))),
    }
}

fn changed() -> Status {
    Status::aborted("another has changed the plan, or it is gone")
}

/// Not UNAVAILABLE: this host is there, and its store is not.
pub fn silent(error: NoAnswer) -> Status {
    Status::failed_precondition(error.to_string())
}
