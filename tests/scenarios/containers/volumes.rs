//! Volumes of containers: as those of a process, in the root of the container.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::{host, runtime, test_image};

all!(a_container_sees_its_volumes_and_what_is_new_is_its_users);

fn a_container_sees_its_volumes_and_what_is_new_is_its_users() {
    let (key, folder) = (runtime(), tempfile::tempdir().expect("a writable folder"));
    let source = folder.path().join("data");
    let data = format!("{{path: {}, create: {{mode: '0750'}}}}", source.display());
    let file = format!(
        "container: {{{key}image: 'test:1', mounts: [{{source: tmpfs, target: /data/mounted}}], command: [/program, \
         'owner=/data', 'owner=/data/cache', 'touch=/data/kept', 'try=/shown/kept', 'touch=/data/mounted/lost', \
         print=end, serve]}}\nuser: web\nvolumes:\n\
         - {{name: cache, source: {{tmpfs: {{size: 1Mi, mode: '0700'}}}}, target: /data/cache}}\n\
         - {{name: shown, source: {{path: {}}}, target: /shown, readOnly: true}}\n\
         - {{name: data, source: {data}, target: /data}}\n",
        source.parent().expect("a folder").display()
    );
    let missing = "container: {image: 'test:1'}\nrestart: {policy: once}\n\
                   volumes: [{name: data, source: {path: /no/such}, target: /data}]\n";
    let mut host = host(&[test_image()]).service("web", &file).service("missing", missing).up(&["web"]);
    let log = host.wait_log("web", "end");
    for line in
        ["owner /data 1000:1001 750", "owner /data/cache 1000:1001 700", "/shown/kept: Read-only file system"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    let found = fs::metadata(&source).expect("it was made");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1000, 1001, 0o750));
    assert!(source.join("kept").exists() && source.join("cache").is_dir());
    let why = "volume data: /no/such: it is not there; make it, or write create: {} in its source";
    let failed = host.wait_state("missing", "failed");
    assert!(failed.message.contains(why), "{}", failed.message);
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(fs::read_dir(source.join("cache")).expect("a folder").count(), 0);
    assert!(source.join("kept").exists());
    host.poweroff();
}
