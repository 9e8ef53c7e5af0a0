use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::*;

/// On a host of its own.
fn apart(work: impl FnOnce(&Path) + Send + 'static) {
    let done = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("run it as root");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let folder = tempfile::tempdir().unwrap();
        work(&folder.path().join("netns/web"));
    });
    done.join().unwrap();
}

fn output(program: &str, words: &str) -> String {
    let done = Command::new(program).args(words.split(' ')).output().expect("it is installed");
    assert!(done.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn within(namespace: &Path, words: &str) -> String {
    output("nsenter", &format!("--net={} ip {words}", namespace.display()))
}

fn sysctl(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap().trim().to_owned()
}

fn ask(namespace: &Path, request: &ContainerNetworkRequest) -> Result<String, String> {
    perform(namespace, &request.to_arguments())
}

fn joins(place: u32, ports: &[&str]) -> ContainerNetworkRequest {
    let ports = ports.iter().map(|port| port.parse().unwrap()).collect();
    ContainerNetworkRequest::Join { place, network: ContainerNetworkSpec::default(), ports }
}

#[test]
fn a_container_joins_as_often_as_it_likes_and_leaves_nothing() {
    apart(|namespace| {
        let leaves = ContainerNetworkRequest::Leave { place: 0x102 };
        assert_eq!(ask(namespace, &leaves), Ok(String::new()), "it never was there");
        let before = output("nft", "list ruleset");
        for _ in 0..2 {
            assert_eq!(
                ask(namespace, &joins(0x102, &["8080:80/tcp", "53:5353/udp", "9000:90/tcp@127.0.0.1"])),
                Ok(String::new())
            );
            let addresses = within(namespace, "-oneline address show dev eth0");
            assert!(
                addresses.contains("inet 10.88.1.2/16 brd 10.88.255.255 scope global eth0"),
                "{addresses}"
            );
            let v6 = addresses.lines().find(|line| line.contains("fd6b:656c:736f::102/64")).unwrap();
            assert!(!v6.contains("tentative"), "{v6}");
            assert!(within(namespace, "route show").contains("default via 10.88.0.1 dev eth0"));
            assert!(within(namespace, "-6 route show").contains("default via fd6b:656c:736f::1 dev eth0"));
            assert!(within(namespace, "link show lo").contains(",UP"));
            let members = output("ip", "-oneline link show master kelson0");
            assert_eq!((members.lines().count(), members.contains("kelson-102@")), (1, true), "{members}");
            let rules = output("nft", "list ruleset");
            for (rule, count) in [
                ("fib daddr type local tcp dport 8080 dnat ip to 10.88.1.2:80", 2),
                ("fib daddr type local udp dport 53 dnat ip to 10.88.1.2:5353", 2),
                ("ip daddr 127.0.0.1 tcp dport 9000 dnat ip to 10.88.1.2:90", 2),
                ("dport 9000", 2),
                ("tcp dport 8080 dnat ip6 to [fd6b:656c:736f::102]:80", 2),
                ("ip saddr 10.88.1.2 oifname != \"kelson0\" masquerade", 1),
                ("iifname \"kelson0\" ip daddr 127.0.0.0/8 drop", 1),
                ("meta nfproto ipv4 iifname != \"kelson0\" oifname != \"kelson0\" drop", 1),
                ("meta nfproto ipv6 iifname != \"kelson0\" oifname != \"kelson0\" drop", 1),
            ] {
                assert_eq!(rules.matches(rule).count(), count, "{rule}: {rules}");
            }
        }
        assert_eq!(sysctl("ipv4/ip_forward"), "1");
        assert_eq!(sysctl("ipv6/conf/all/forwarding"), "1");
        assert_eq!(ask(namespace, &leaves), Ok(String::new()));
        assert_eq!(output("ip", "-oneline link show master kelson0"), "");
        assert!(!namespace.exists());
        let left = output("nft", "list ruleset");
        assert!(before.is_empty() && !left.contains("kelson-web"), "{left}");
        assert!(!std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap().contains("netns/web"));
    });
}

#[test]
fn a_host_that_passes_packets_on_already_continues_to_pass_all_and_one_that_listens_to_routers_to_listen() {
    apart(|namespace| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        output("ip", "link add far type bridge");
        output("ip", "link add deaf type bridge");
        std::fs::write("/proc/sys/net/ipv6/conf/deaf/accept_ra", "0").unwrap();
        ask(namespace, &joins(2, &[])).unwrap();
        let rules = output("nft", "list ruleset");
        assert!(!rules.contains("forward-ipv4") && rules.contains("forward-ipv6"), "{rules}");
        let listens = ["far", "deaf", "kelson0"].map(|name| sysctl(&format!("ipv6/conf/{name}/accept_ra")));
        assert_eq!(listens, ["2", "0", "0"]);
    });
}

#[test]
fn a_network_that_the_host_is_in_is_refused_and_nothing_stays() {
    apart(|namespace| {
        output("ip", "link add lan type bridge");
        output("ip", "address add 10.88.200.1/24 dev lan");
        let error = ask(namespace, &joins(2, &[])).unwrap_err();
        assert_eq!(
            error,
            "the network of container \"web\": the host has the address 10.88.200.1 in the network of its containers; \
             write another subnet in containerNetwork of machine.yaml"
        );
        output("ip", "address del 10.88.200.1/24 dev lan");
        // One that is in the way of the file.
        std::fs::create_dir_all(namespace.join("x")).unwrap();
        let error = ask(namespace, &joins(2, &["8080:80/tcp"])).unwrap_err();
        assert!(error.contains("netns/web: Is a directory"), "{error}");
        assert!(!output("nft", "list ruleset").contains("kelson-web"));
        assert_eq!(output("ip", "-oneline link show master kelson0"), "");
    });
}
