# shellcheck shell=bash
# Functions and variables of the scripts in this folder. Sourced, never run.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")
# KELSON_OUT moves results; downloads stay in one cache.
out=${KELSON_OUT:-$top/out}
# shellcheck disable=SC2034 # used by those who source this
cache=$top/out/cache
suite=bookworm
mirror=${MIRROR:-http://deb.debian.org/debian}
security=${SECURITY_MIRROR:-http://deb.debian.org/debian-security}
# shellcheck disable=SC2034 # used by those who source this
binaries=${KELSON_BIN_DIR:-$top/target/x86_64-unknown-linux-gnu/release}

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# One hash over the names, modes and contents of the files below the given paths.
hash_of() {
    find "$@" -type f -printf '%m %p\n' | LC_ALL=C sort | sha256sum
    find "$@" -type l -printf '%p %l\n' | LC_ALL=C sort | sha256sum
    find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum
}

# Debian packages, extracted to a folder: debian_tree VARIANT PACKAGES TO [OPTION OF MMDEBSTRAP…]
debian_tree() {
    local variant=$1 packages=$2 to=$3 owner=()
    shift 3
    if ((EUID != 0)); then owner=(--no-same-owner); fi
    # The rest after the archive's end is read too: mmdebstrap would take a closed pipe for a failure.
    mmdebstrap --quiet --format=tar --variant="$variant" --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$@" "$suite" - \
        "deb $mirror $suite main" "deb $mirror $suite-updates main" "deb $security $suite-security main" |
        { tar -x "${owner[@]}" --delay-directory-restore --exclude='./dev/*' -C "$to" && cat >/dev/null; }
}

# Puts a copy of the configuration folder $1 at $2, fit for a machine that hack/vm boots: its one interface, and
# the API with the keys of out/pki, unless the machine file says something else about them.
configuration() {
    local from=$1 to=$2
    [[ -d $from ]] || die "$from: no such folder; a configuration is a folder with machine.yaml and services/"
    mkdir -p "$to"
    cp -rL "$from/." "$to/"
    mkdir -p "$to/services" "$to/pki"
    cp "$out/pki/ca.pem" "$out/pki/server.pem" "$out/pki/server.key" "$to/pki/"
    local machine=$to/machine.yaml
    # A last line without its newline would run into what is added.
    if [[ -s $machine && -n $(tail -c1 "$machine") ]]; then echo >>"$machine"; fi
    if ! grep -qs '^network:' "$machine"; then
        echo 'network: [{interface: eth0, address: 10.0.2.15/24, gateway: 10.0.2.2, dns: [10.0.2.3]}]' >>"$machine"
    fi
    if ! grep -qs '^api:' "$machine"; then
        cat >>"$machine" <<END
api:
  listen: ["0.0.0.0:50000"]
  ca: /etc/kelson/pki/ca.pem
  certificate: /etc/kelson/pki/server.pem
  key: /etc/kelson/pki/server.key
END
    fi
}

# Copies programs of a Debian tree with the libraries that they are linked with, all found in the tree alone:
# copy_programs TREE TO PROGRAM…
copy_programs() {
    local tree=$1 to=$2 name from
    shift 2
    mkdir -p "$to/usr/bin"
    for name; do
        # Debian's newer packages have no /bin of their own; /usr is all there is then.
        from=$(find "$tree"/{,usr/}{bin,sbin} -name "$name" 2>/dev/null | head -n1) || true
        [[ $from ]] || die "$name is in none of the packages that were fetched"
        cp -L "$from" "$to/usr/bin/"
        copy_libraries "$tree" "$to" "$from"
    done
}

# Copies the libraries of programs of a Debian tree, without the programs: copy_libraries TREE TO PROGRAM…
copy_libraries() {
    local tree=$1 to=$2 program library
    shift 2
    mkdir -p "$to/usr/lib/x86_64-linux-gnu" "$to/usr/lib64"
    for program; do
        while read -r library; do
            cp -L "$library" "$to/usr/lib/x86_64-linux-gnu/"
        done < <(libraries "$tree" "$program")
    done
    # The loader, which is among them, by the name that programs know it by.
    ln -sf ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$to/usr/lib64/"
}

# The libraries that a program of a Debian tree is linked with, one a line: libraries TREE PROGRAM
libraries() {
    local tree=$1 program=$2 folders loader
    folders=$tree/lib/x86_64-linux-gnu:$tree/usr/lib/x86_64-linux-gnu
    loader=$(find "$tree"/{,usr/}lib/x86_64-linux-gnu -name ld-linux-x86-64.so.2 2>/dev/null | head -n1) || true
    # A static program has none, which the loader calls an error.
    { "$loader" --library-path "$folders" --list "$program" || true; } 2>/dev/null |
        sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
}

# Programs of Debian's packages with their libraries, once, in the folder $fetched: fetch NAME SUITE PACKAGES PROGRAM…
fetch() {
    local name=$1 from=$2 packages=$3 how
    shift 3
    how=$(declare -f fetch copy_programs copy_libraries libraries debian_tree)
    fetched=$cache/$name-$(sha256sum <<<"$how $packages $*" | cut -c1-16)
    if [[ ! -d $fetched ]]; then (
        mkdir -p "$cache"
        work=$(mktemp -d "$cache/$name.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        say "fetching $name (once)"
        mkdir "$work/debian" "$work/root"
        suite=$from debian_tree extract "$packages" "$work/debian"
        copy_programs "$work/debian" "$work/root" "$@"
        chmod -R u+w,go+rX "$work/root"
        # Two who fetch at the same time have fetched the same.
        mv -T "$work/root" "$fetched" 2>/dev/null || [[ -d $fetched ]]
    ) fi
}

# containerd of this version and what it runs containers with. 1.6 is that of the Debian which all else is from, 1.7 that
# of the one after it.
fetch_containerd() {
    local version=$1 from
    case $version in
        1.6) from=bookworm ;;
        1.7) from=trixie ;;
        *) die "containerd $version: there are 1.6 and 1.7" ;;
    esac
    fetch "containerd-$version" "$from" containerd,runc containerd containerd-shim-runc-v2 ctr runc
}

# etcd of Debian, and its client: the store of fleets in tests.
fetch_etcd() {
    fetch etcd-3.4 bookworm etcd-server,etcd-client etcd etcdctl
}

# An initramfs on stdout, of what hack/image has laid out, this version of containerd or none, this configuration and
# this folder of images (may be empty), and with nft if $nft says so: pack CONTAINERD CONFIG IMAGES [OPTION OF MKSQUASHFS…]
pack() {
    local version=$1 config=$2 images=$3 work as_root=()
    shift 3
    if ((EUID != 0)); then as_root=(fakeroot); fi
    work=$(mktemp -d "$out/pack.XXXXXX")
    # Links cost nothing; what is added is added as files of its own.
    cp -al "$out/image/root" "$work/root"
    if [[ $version != none ]]; then
        fetch_containerd "$version"
        cp -al "$fetched/." "$work/root/"
    fi
    if [[ ${nft-} ]]; then
        fetch nft "$suite" nftables nft
        # Both bring the C library.
        cp -alf "$fetched/." "$work/root/"
    fi
    cp -al "$out/image/initramfs" "$work/initramfs"
    configuration "$config" "$work/root/etc/kelson"
    # A machine that finds no root still has its network and its API.
    cp -r "$work/root/etc/kelson/machine.yaml" "$work/root/etc/kelson/pki" "$work/initramfs/etc/kelson/"
    cp "$work/root/etc/passwd" "$work/root/etc/group" "$work/initramfs/etc/"
    if [[ $images ]]; then cp -rL "$images/." "$work/root/usr/share/kelson/images/"; fi
    "${as_root[@]}" mksquashfs "$work/root" "$work/initramfs/root.squashfs" -quiet -no-progress -noappend \
        -mkfs-time 0 -all-time 0 "$@" -p '/var/lib/redis m 750 100 100' >&2
    find "$work/initramfs" -exec touch -h -d @0 {} +
    (cd "$work/initramfs" && find . -print0 | LC_ALL=C sort -z |
        cpio --quiet --null --create --format=newc --reproducible --owner=0:0)
    rm -rf "$work"
}
