//! The service Metrics: numbers about the host and its services, family after family.
//!
//! An answer is made page by page as its reader takes it, so a thousand services cost PID 1 one page, and a reading of
//! all that is shared by those who ask within the same second.

mod families;
mod fleet_families;
mod volume_families;

use kelson_sys::ordered;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::Stream;
use kelson_proto::v1;
use kelson_proto::v1::metrics_server::Metrics;
use kelson_services::Manager;
use kelson_services::fleet;
use kelson_services::host::{BootReport, Host};
use kelson_services::metrics::{Reading, Readings, ServiceFigures};
use kelson_services::node_health::NodeHealth;
use kelson_services::volumes::{self, Figures as VolumeFigures};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use self::families::{FAMILIES, Family, Figures, FleetFigures, HealthFigures, Of, Samples};
use super::model;
use super::services::few;

/// The number of clients that read metrics at the same time.
const READERS: usize = 4;
/// A client that has not read all of it by then never will.
const LIMIT: Duration = Duration::from_secs(60);
/// The samples of a page, of about 16 KiB; all those of one service of one family come on the same.
const PAGE: usize = 256;

pub struct MetricsApi {
    manager: Manager,
    health: NodeHealth,
    host: Host,
    readings: Readings,
    readers: Arc<Semaphore>,
}

impl MetricsApi {
    pub fn new(manager: Manager, health: NodeHealth, host: Host) -> MetricsApi {
        let readings = Readings::new(manager.clone());
        MetricsApi { manager, health, host, readings, readers: Arc::new(Semaphore::new(READERS)) }
    }
}

/// The answer, and how far it has been sent.
struct Pages {
    reading: Arc<Reading>,
    health: HealthFigures,
    volumes: VolumeFigures,
    fleet: FleetFigures,
    boot: BootReport,
    mode: &'static str,
    started: SystemTime,
    /// Sorted; empty: all services, and the host.
    names: Vec<String>,
    family: usize,
    service: usize,
}

impl Pages {
    fn wants(&self, service: &ServiceFigures) -> bool {
        self.names.is_empty() || self.names.binary_search_by(|name| (**name).cmp(&service.now.name)).is_ok()
    }
}

impl Iterator for Pages {
    type Item = v1::GetMetricsResponse;

    fn next(&mut self) -> Option<v1::GetMetricsResponse> {
        let mut page = v1::GetMetricsResponse::default();
        let mut full = 0_usize;
        while full < PAGE
            && let Some(family) = family(self.family)
        {
            let mut samples = Samples::default();
            let mut whole = true;
            match family.of {
                Of::Host(_) if !self.names.is_empty() => {}
                Of::Host(tell) => {
                    let Pages { reading, health, volumes, fleet, boot, mode, started, .. } = self;
                    let started = *started;
                    tell(&Figures { reading, health, volumes, fleet, boot, mode, started }, &mut samples);
                }
                Of::Service(tell) => {
                    while let Some(service) = self.reading.services.get(self.service) {
                        if full.saturating_add(samples.len()) >= PAGE {
                            whole = false;
                            break;
                        }
                        if self.wants(service) {
                            tell(service, &mut samples);
                        }
                        self.service = self.service.saturating_add(1);
                    }
                }
            }
            if whole {
                (self.family, self.service) = (self.family.saturating_add(1), 0);
            }
            full = full.saturating_add(samples.len());
            if !samples.is_empty() {
                page.families.push(family.part(samples));
            }
        }
        (!page.families.is_empty()).then_some(page)
    }
}

/// All in the order of the answer. A build without volumes or fleets has none of theirs.
fn family(place: usize) -> Option<&'static Family> {
    let of_volumes = if volumes::SUPPORTED { volume_families::FAMILIES } else { &[] };
    let of_fleet = if fleet::SUPPORTED { fleet_families::FAMILIES } else { &[] };
    FAMILIES.iter().chain(of_volumes).chain(of_fleet).nth(place)
}

/// A reader's place and what it reads, until the time is up.
type Held = Arc<Mutex<Option<(Pages, OwnedSemaphorePermit)>>>;

/// The pages on their way to one reader.
struct Sending {
    held: Held,
    ended: bool,
    limit: JoinHandle<()>,
}

impl Sending {
    fn new(pages: Pages, place: OwnedSemaphorePermit) -> Sending {
        let held = Arc::new(Mutex::new(Some((pages, place))));
        let late = Arc::clone(&held);
        // A reader that takes nothing asks for nothing either: only a clock of its own ends it.
        let limit = kelson_sys::spawn(async move {
            tokio::time::sleep(LIMIT).await;
            late.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        Sending { held, ended: false, limit }
    }
}

impl Stream for Sending {
    type Item = Result<v1::GetMetricsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let page =
            self.held.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|(pages, _)| pages.next());
        Poll::Ready(match page {
            Some(Some(page)) => Some(Ok(page)),
            Some(None) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                let late = format!("the metrics were not read within {} s", LIMIT.as_secs());
                Some(Err(Status::deadline_exceeded(late)))
            }
        })
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.limit.abort();
    }
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Metrics for MetricsApi {
    async fn get(
        &self,
        request: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<BoxStream<v1::GetMetricsResponse>>, Status> {
        let mut names = request.into_inner().names;
        few(&names)?;
        if let Some(unknown) = names.iter().find(|name| self.manager.get(name).is_none()) {
            return Err(model::status(self.manager.unknown(unknown)));
        }
        ordered::sort(&mut names);
        let place = Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "{READERS} others are reading the metrics, which is all at the same time: ask again in a moment"
            ))
        })?;
        let reading = self.readings.latest().await;
        let volumes = match &self.host.volumes {
            Some(volumes) if volumes::SUPPORTED && names.is_empty() => volumes.figures().await,
            _ => VolumeFigures::default(),
        };
        let fleet = match &self.host.fleet {
            Some(fleet) if fleet::SUPPORTED && names.is_empty() => FleetFigures::now(fleet),
            _ => FleetFigures::default(),
        };
        let boot = self.host.boot.borrow().clone();
        let Host { mode, started, .. } = self.host;
        let health = HealthFigures::now(&self.health);
        let pages =
            Pages { reading, health, volumes, fleet, boot, mode, started, names, family: 0, service: 0 };
        Ok(Response::new(Box::pin(Sending::new(pages, place))))
    }
}
