//! A reboot without the firmware: the kernel of the machine file is loaded before the first service stops, so what is wrong
//! with it refuses the request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_services::ServicesError;
use kelson_services::host::ShutdownAction;
use kelson_spec::machine::KexecSpec;

use super::intent::Intents;
use crate::options::Mode;
use crate::task::{self, Request};

/// How long reading the kernel and its initramfs may take.
const LOAD: Duration = Duration::from_secs(60);
/// Whether drivers stop their watchdogs when the kernel ends: -1 as the driver has it, 0 no, 1 yes.
const STOPS_WATCHDOGS: &str = "/sys/module/watchdog/parameters/stop_on_reboot";

/// The parts of PID 1 that replacing the kernel needs.
pub(super) struct Kexec {
    pub(super) mode: Mode,
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) intents: Intents,
    /// `kexec` of the machine file.
    pub(super) spec: Option<KexecSpec>,
    pub(super) has_watchdog: bool,
}

impl Kexec {
    /// Loads the kernel, passes events to `report`, and begins the shutdown; answers with what is really under way.
    ///
    /// # Errors
    /// The kernel cannot be executed; nothing has changed.
    pub(super) async fn ask(
        self,
        reason: &str,
        report: impl Fn(&str) + Send,
    ) -> Result<String, ServicesError> {
        // A shutdown that is under way needs no kernel.
        if self.intents.current().is_none() {
            let loaded = self.load().await.map_err(ServicesError::NotNow)?;
            report(&loaded);
            if self.has_watchdog && stops_watchdogs(Path::new(STOPS_WATCHDOGS)) {
                report(
                    "the hardware watchdog may stop when the new kernel begins; with watchdog.stop_on_reboot=0 on the \
                     kernel's command line it stays armed",
                );
            }
        }
        Ok(self.intents.ask(ShutdownAction::Kexec, reason))
    }

    async fn load(&self) -> Result<String, String> {
        if self.mode == Mode::Container {
            return Err("this is a container, and its kernel is the host's".to_owned());
        }
        let Some(KexecSpec { kernel, initramfs, command_line }) = self.spec.clone() else {
            return Err(
                "machine.yaml names no kernel; write such as kexec: {kernel: /boot/vmlinuz}".to_owned()
            );
        };
        let request =
            Request::LoadKernel { kernel, command_line: command_line.unwrap_or_default(), initramfs };
        task::run(&*self.tasks, &request, LOAD)
            .await
            .map_err(|error| format!("the kernel was not loaded, and nothing has changed: {error}"))
    }
}

fn stops_watchdogs(parameter: &Path) -> bool {
    std::fs::read_to_string(parameter).map_or(true, |value| value.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    fn kexec(mode: Mode, spec: Option<KexecSpec>) -> Kexec {
        let tasks = Arc::new(Scripted::new(|line| match line {
            "kexec /boot/vmlinuz quiet /boot/initramfs" => Some("done /boot/vmlinuz is loaded"),
            _ => Some("failed /boot/other: no such file"),
        }));
        Kexec { mode, tasks, intents: Intents::default(), spec, has_watchdog: false }
    }

    fn spec(kernel: &str) -> KexecSpec {
        KexecSpec {
            kernel: kernel.into(),
            initramfs: Some("/boot/initramfs".into()),
            command_line: Some("quiet".to_owned()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kernel_that_cannot_be_loaded_begins_no_end() {
        for (mode, spec, text) in [
            (Mode::Container, Some(spec("/boot/vmlinuz")), "this is a container"),
            (Mode::Machine, None, "machine.yaml names no kernel"),
            (Mode::Machine, Some(spec("/boot/other")), "/boot/other: no such file"),
        ] {
            let kexec = kexec(mode, spec);
            let intents = kexec.intents.clone();
            let error = kexec.ask("a test", |_| ()).await.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            assert_eq!(intents.current(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loaded_kernel_begins_the_end_and_joins_one_that_is_under_way() {
        let kexec = self::kexec(Mode::Machine, Some(spec("/boot/vmlinuz")));
        let intents = kexec.intents.clone();
        assert_eq!(
            kexec.ask("a test", |text| assert_eq!(text, "/boot/vmlinuz is loaded")).await.unwrap(),
            "reboot by kexec has begun"
        );
        assert_eq!(intents.current().unwrap().action, ShutdownAction::Kexec);
        let kexec = Kexec { intents, ..self::kexec(Mode::Machine, None) };
        let answer = kexec.ask("another", |text| panic!("{text}")).await.unwrap();
        assert_eq!(answer, "reboot by kexec is under way already, asked for by a test");
    }

    #[test]
    fn the_kernels_word_decides_whether_watchdogs_stay_armed() {
        let file = std::env::temp_dir().join(format!("kelson-stop-on-reboot-{}", std::process::id()));
        for (word, stops) in [("-1\n", true), ("1\n", true), ("0\n", false)] {
            std::fs::write(&file, word).unwrap();
            assert_eq!(stops_watchdogs(&file), stops, "{word}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(stops_watchdogs(&file));
    }
}
