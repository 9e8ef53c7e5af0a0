//! `[Socket]`: what systemd.socket(5) describes. Its keys about processes are those of a service; the sockets run none.

use crate::key::Neutral::{Empty, No, Words};
use crate::key::{Key, kept, lost, moot, nearly};
use crate::sockets::{
    accept, as_table, backlog, datagram, descriptor_name, exec_start_pre, fifo, free_bind, group, ipv6_only,
    keep_alive, mode, pass_credentials, remove_on_stop, reuse_port, seqpacket, stream, user,
};

const KEEP_ALIVE: &str = "the times of keep-alive are those of the kernel";
const QUEUE: &str = "Kelson makes no message queue";
const ACCEPTED: &str = "it counts with `Accept=yes` alone";
const LIMIT: &str = "starts that follow each other wait longer each time (`restart`)";
const BUFFER: &str = "the socket has the buffers that the kernel gives";
const LABEL: &str = "the socket gets no such label";
const PROGRAM: &str = "no program runs around the sockets; a `pre` hook of the service can";

pub const KEYS: [Key; 60] = [
    kept("ListenStream", stream, "`sockets: [{listen: …}]`: TCP, a Unix socket, or vsock"),
    kept("ListenDatagram", datagram, "`sockets: [{listen: udp:…}]`, `datagram:…`"),
    kept("ListenSequentialPacket", seqpacket, "`sockets: [{listen: seqpacket:…}]`"),
    kept("ListenFIFO", fifo, "`sockets: [{listen: fifo:…}]`"),
    lost("ListenSpecial", Empty, "Kelson opens no device or file for the service"),
    lost("ListenNetlink", Empty, "Kelson makes no such socket"),
    lost("ListenMessageQueue", Empty, QUEUE),
    lost("ListenUSBFunction", Empty, "Kelson makes no USB function"),
    lost("SocketProtocol", Empty, "Kelson makes no sockets of SCTP or UDP-Lite"),
    kept("BindIPv6Only", ipv6_only, "`sockets: [{ipv6Only: …}]`"),
    kept("Backlog", backlog, "`sockets: [{backlog: …}]`"),
    lost("BindToDevice", Empty, "the socket takes what comes by any interface"),
    kept("SocketUser", user, "`sockets: [{user: …}]`"),
    kept("SocketGroup", group, "`sockets: [{user: …:GROUP}]`"),
    kept("SocketMode", mode, "`sockets: [{mode: …}]`"),
    lost(
        "DirectoryMode",
        Words(&["0755", "755"]),
        "folders that are made for a socket have the permissions 0755",
    ),
    kept("Accept", accept, "the service takes the connections; not `yes`"),
    moot("Writable", "it is about files that Kelson does not open"),
    lost("FlushPending", No, "what comes in while the service does not run is kept for it"),
    moot("MaxConnections", ACCEPTED),
    moot("MaxConnectionsPerSource", ACCEPTED),
    kept("KeepAlive", keep_alive, "`sockets: [{keepAlive: …}]`"),
    lost("KeepAliveTimeSec", Empty, KEEP_ALIVE),
    lost("KeepAliveIntervalSec", Empty, KEEP_ALIVE),
    lost("KeepAliveProbes", Empty, KEEP_ALIVE),
    lost("NoDelay", No, "the program has to switch Nagle's algorithm off itself"),
    lost("Priority", Empty, "the socket has no priority of its own"),
    nearly("DeferAcceptSec", as_table, "a connection starts the service before data comes"),
    lost("ReceiveBuffer", Empty, BUFFER),
    lost("SendBuffer", Empty, BUFFER),
    lost("IPTOS", Empty, "the socket has the type of service that the kernel gives"),
    lost("IPTTL", Empty, "the socket has the time to live that the kernel gives"),
    lost("Mark", Empty, "packets of the socket have no mark"),
    kept("ReusePort", reuse_port, "`sockets: [{reusePort: …}]`"),
    lost("SmackLabel", Empty, LABEL),
    lost("SmackLabelIPIn", Empty, LABEL),
    lost("SmackLabelIPOut", Empty, LABEL),
    lost("SELinuxContextFromNet", No, LABEL),
    lost("PipeSize", Empty, BUFFER),
    lost("MessageQueueMaxMessages", Empty, QUEUE),
    lost("MessageQueueMessageSize", Empty, QUEUE),
    kept("FreeBind", free_bind, "`sockets: [{freeBind: …}]`"),
    lost("Transparent", No, "the socket takes nothing for addresses that the host does not have"),
    lost("Broadcast", No, "the program has to ask for broadcasts itself"),
    kept("PassCredentials", pass_credentials, "`sockets: [{passCredentials: …}]`"),
    lost("PassSecurity", No, "messages have no security label"),
    lost("PassPacketInfo", No, "the program has to ask for the packet information itself"),
    lost("Timestamping", Words(&["off"]), "the program has to ask for timestamps itself"),
    lost("TCPCongestion", Empty, "the socket has the congestion control of the kernel"),
    nearly(
        "ExecStartPre",
        exec_start_pre,
        "a one-shot beside the service, which `depends` on it: once after a boot, and not at each start of the socket",
    ),
    lost("ExecStartPost", Empty, PROGRAM),
    lost("ExecStopPre", Empty, PROGRAM),
    lost("ExecStopPost", Empty, PROGRAM),
    moot("TimeoutSec", "no program runs around the sockets"),
    moot("Service", "the service that has the `sockets`"),
    nearly("RemoveOnStop", remove_on_stop, "Kelson always removes the file once the service rests"),
    lost("Symlinks", Empty, "no links lead to the socket; a `pre` hook of the service can make them"),
    kept("FileDescriptorName", descriptor_name, "`sockets: [{name: …}]`; without it the name of the unit"),
    nearly("TriggerLimitBurst", as_table, LIMIT),
    nearly("TriggerLimitIntervalSec", as_table, LIMIT),
];
