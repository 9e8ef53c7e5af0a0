//! Measuring all services.

use std::sync::Arc;

use super::Manager;
use crate::metrics::{InitFigures, Reading, ServiceFigures};

/// Services that are measured before other tasks run: less than a millisecond's work.
const PORTION: usize = 8;

impl Manager {
    /// Measures the host and all its services. Reads three files for each service, in portions.
    pub(crate) async fn measure(&self) -> Reading {
        let names: Vec<Arc<str>> = self.entries().keys().cloned().collect();
        let mut reading = Reading {
            services: Vec::with_capacity(names.len()),
            init: InitFigures::now(),
            events: *self.newest_event().borrow(),
            group_restarts: self.group_restarts(),
            dropped: self.inner.host_context.logs.dropped(),
        };
        for portion in names.chunks(PORTION) {
            reading.services.extend(portion.iter().filter_map(|name| self.figures(name)));
            tokio::task::yield_now().await;
        }
        reading
    }

    /// `None`: it was removed meanwhile.
    fn figures(&self, name: &Arc<str>) -> Option<ServiceFigures> {
        let (now, totals) = {
            let entries = self.entries();
            let entry = entries.get(name)?;
            (entry.snapshot(), entry.live().map(|handle| Arc::clone(&handle.totals)))
        };
        let (usage, faulty_file) = (self.usage(name), self.has_faulty_file(name));
        Some(ServiceFigures { now, faulty_file, usage, totals })
    }
}
