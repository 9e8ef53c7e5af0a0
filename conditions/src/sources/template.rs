//! Whether there is a text of a template. A helper renders it; its answers come through a channel.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Reason, Subject};

/// What is known of templates, by their sources: why one cannot be rendered; `None`: it can. Of others nothing is known yet.
pub type TemplateStates = BTreeMap<PathBuf, Option<Arc<str>>>;

/// The templates of the host. Cheap to clone. By default nothing renders any.
#[derive(Clone, Default)]
pub struct Templates(Option<watch::Receiver<TemplateStates>>);

impl Templates {
    pub fn new(states: watch::Receiver<TemplateStates>) -> Templates {
        Templates(Some(states))
    }

    /// Holds while this one can be rendered.
    pub fn condition(&self, source: &Path) -> TemplateCondition {
        TemplateCondition { source: source.to_owned(), states: self.0.clone() }
    }
}

/// Holds while a template can be rendered.
pub struct TemplateCondition {
    source: PathBuf,
    /// `None`: the host is in no fleet.
    states: Option<watch::Receiver<TemplateStates>>,
}

impl TemplateCondition {
    fn state(&self) -> Option<Option<Arc<str>>> {
        self.states.as_ref()?.borrow().get(&self.source).cloned()
    }
}

impl Condition for TemplateCondition {
    fn level(&self) -> Level {
        match self.states {
            Some(_) => self.state().map(|problem| problem.is_none()).into(),
            None => Level::DoesNotHold,
        }
    }

    fn missing(&self) -> Vec<Missing> {
        let reason = match (&self.states, self.state()) {
            (None, _) => Reason::NoFleet,
            (_, None) => Reason::NotRendered,
            (_, Some(None)) => return Vec::new(),
            (_, Some(Some(problem))) => Reason::Template(problem),
        };
        vec![Missing { subject: Subject::Template(self.source.clone()), reason: Some(reason) }]
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        match &mut self.states {
            Some(states) => changed(states),
            None => Box::pin(pending()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::missing::sentence;

    #[tokio::test(start_paused = true)]
    async fn it_holds_while_it_can_be_rendered_and_says_what_is_missing() {
        let (publish, states) = watch::channel(TemplateStates::new());
        let source = Path::new("/etc/kelson/templates/haproxy.cfg");
        let mut condition = Templates::new(states).condition(source);
        assert_eq!(condition.level(), Level::Unknown);
        let text = "template \"/etc/kelson/templates/haproxy.cfg\" to be rendered";
        assert_eq!(sentence(&condition.missing()), format!("{text} (kelson-fleet has not rendered it yet)"));
        let why = "no instance of postgres with tag primary";
        for problem in [Some(Arc::from(why)), None] {
            publish.send_replace([(source.to_owned(), problem.clone())].into());
            timeout(Duration::from_secs(1), condition.changed()).await.expect("it changes");
            assert_eq!(condition.level(), problem.is_none().into());
            let whole = problem.map_or_else(String::new, |why| format!("{text} ({why})"));
            assert_eq!(sentence(&condition.missing()), whole);
        }
        let mut none = Templates::default().condition(source);
        assert_eq!(none.level(), Level::DoesNotHold);
        assert!(sentence(&none.missing()).contains("this machine has no fleet"));
        assert!(timeout(Duration::from_secs(60), none.changed()).await.is_err());
    }
}
