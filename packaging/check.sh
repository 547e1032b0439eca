#!/usr/bin/env bash
# Whether what packaging/build.sh made holds: the file needs nothing of its host; it runs in an empty folder and as an image; the packages
# install on Debian 12 and 11 and into an empty RPM root, give a verdict, and leave nothing when they are removed. As root; --again also
# builds a second time from a clone in another folder and compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$PWD/target/packages
rdiag=$packages/stage/rdiag
shopt -s nullglob
deb=("$packages"/*.deb) rpm=("$packages"/*.rpm)
work=$(mktemp -d /var/tmp/rdiag-packaging.XXXXXX)
mounted=()
finish() {
    for place in "${mounted[@]}"; do umount -R "$place"; done
    rm -rf --one-file-system "$work"
}
trap finish EXIT
say() { printf '%-60s %s\n' "$1" "$2"; }
fail() { say "$1" FAILED && exit 1; }

# All of it at once: a reader that stops early ends readelf, which then fails.
readelf -hldSW "$rdiag" >"$work/headers"
! grep -q NEEDED "$work/headers" || fail "no library is needed"
! grep -q INTERP "$work/headers" || fail "no loader is needed"
grep -q 'Type: *DYN' "$work/headers" || fail "it is placed at random (static-pie)"
# With these a static program would load the host's name services, and fail where their version is another one.
names=$(nm "$packages/rdiag.symbols" | grep -oE ' T (getpw|getgr|getserv|gethostby|getaddrinfo|getnetgr|dlopen)[a-z_]*$' | sort -u | sed 's/ T //' | tr '\n' ' ' || true)
[[ $names == "getaddrinfo " || -z $names ]] || fail "no service of names but std's own: $names"
say "no library, no loader, placed at random, names: ${names:-none}" ok
grep -q '\.dep-v0' "$work/headers" || fail "it carries the list of its crates"
size=$(stat -c %s "$rdiag")
((size <= 25 * 1024 * 1024)) || fail "$size bytes, of at most 25 MiB"
say "$size bytes, of at most 25 MiB" ok
# Beside a program that does nothing, since machines differ: the smallest of 200 each, in turns.
start=$(python3 - "$rdiag" <<'PYTHON'
import subprocess, sys, time
def took(*command):
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1e3
pairs = [(took("/bin/true"), took(sys.argv[1], "--version")) for _ in range(200)]
nothing, own = (min(column) for column in zip(*pairs))
print(f"{own:.1f} ms, {own - nothing:.1f} ms more than /bin/true")
sys.exit(own - nothing > 2)
PYTHON
) || fail "it starts within 2 ms: $start"
say "it starts in $start" ok

sbom=("$packages"/rdiag-*.cdx.json)
python3 - "${sbom[0]}" Cargo.lock <<'PYTHON' || fail "the SBOM names crates as Cargo.lock has them"
import json, re, sys
listed = {(one["name"], one["version"]) for one in json.load(open(sys.argv[1]))["components"]}
locked = set(re.findall(r'name = "(.+)"\nversion = "(.+)"', open(sys.argv[2]).read()))
sys.exit(not (len(listed) > 50 and listed <= locked and {"serde_json", "aya"} <= {name for name, _ in listed}))
PYTHON
(cd "$packages" && sha256sum --quiet --check SHA256SUMS.*) || fail "the checksums are those of the files"
# A release uploads what is listed there, each once.
listed=$(sed 's/^[0-9a-f]*  \(\.\/\)\?//' "$packages"/SHA256SUMS.* | sort)
there=$(cd "$packages" && printf '%s\n' *.tar.gz *.cdx.json *.deb *.rpm | sort)
[[ $listed == "$there" ]] || fail "the checksums name each file once"
say "a list of crates as Cargo.lock has them, checksums" ok

# What cargo-binstall would take of the archive, by the metadata in Cargo.toml.
archive=("$packages"/rdiag-*.tar.gz)
[[ ${archive[0]} =~ /(rdiag)-([0-9][^/]*)-((x86_64|aarch64)-[a-z0-9-]+)\.tar\.gz$ ]] || fail "the archive has its name"
filled() {
    sed -n "s|^$1 = \"\(.*\)\"|\1|p" Cargo.toml |
        sed "s/{ name }/rdiag/; s/{ version }/${BASH_REMATCH[2]}/g; s/{ target }/${BASH_REMATCH[3]}/; s/{ bin }{ binary-ext }/rdiag/"
}
url=$(filled pkg-url) inner=$(filled bin-dir)
[[ $url == "{ repo }/releases/download/v${BASH_REMATCH[2]}/$(basename "${archive[0]}")" ]] || fail "cargo-binstall: $url is the archive"
tar -xzOf "${archive[0]}" "$inner" | cmp - "$rdiag" || fail "cargo-binstall: $inner is the program"
say "cargo-binstall: the archive and the program in it" ok

# verdict CHROOT USER: the playbook ends with a verdict below a root, as a user.
verdict() {
    chroot --userspec="$2" "$1" "${3:-/usr/bin/rdiag}" run use-method --duration 1s --format json --out - >"$work/report.json" &&
        python3 -c 'import json, sys; report = json.load(sys.stdin); sys.exit(not (report["verdict"] and report["findings"]))' <"$work/report.json"
}
# proc FOLDER: what rdiag reads, below a root.
proc() {
    mkdir -p "$1/proc" "$1/sys"
    mount -t proc proc "$1/proc" && mounted=("$1/proc" "${mounted[@]}")
    mount --rbind -o ro /sys "$1/sys" && mount --make-rslave "$1/sys" && mounted=("$1/sys" "${mounted[@]}")
}
unproc() {
    umount -R "$1/sys" && umount "$1/proc" && mounted=("${mounted[@]:2}")
}

mkdir -p "$work/empty"
cp "$rdiag" "$work/empty/rdiag"
chroot "$work/empty" /rdiag --version >/dev/null || fail "it starts in an empty folder"
proc "$work/empty"
verdict "$work/empty" 0:0 /rdiag && verdict "$work/empty" 65534:65534 /rdiag || fail "an empty folder with /proc: a verdict as root and as a user"
unproc "$work/empty"
say "an empty folder with /proc: a verdict as root and as a user" ok

images() { buildah --root "$work/images" --runroot "$work/images.run" --storage-driver vfs "$@"; }
images bud --quiet --isolation chroot --file packaging/Containerfile --tag rdiag "$packages/stage" >/dev/null ||
    fail "an image FROM scratch"
image=$(images mount "$(images from --pull-never rdiag)")
[[ $(cd "$image" && find . ! -type d) == ./rdiag ]] || fail "the image holds one file"
[[ $(images inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' rdiag) == "[/rdiag]" ]] || fail "the image starts rdiag"
proc "$image"
verdict "$image" 0:0 /rdiag || fail "an image FROM scratch: a verdict"
unproc "$image"
images rm --all >/dev/null
say "an image FROM scratch: one file, a verdict" ok

# brought ROOT FILE…: what a package brings beside the program, below a root; the recorder is not enabled by it.
brought() {
    local root=$1 file
    for file in "${@:2}"; do [[ -s $root/$file ]] || fail "a package brings $file"; done
    [[ -z $(find "$root/etc" -name 'rdiag*' 2>/dev/null) ]] || fail "the recorder is off until it is enabled"
}
completions=(usr/share/bash-completion/completions/rdiag usr/share/fish/vendor_completions.d/rdiag.fish)

for release in bookworm bullseye; do
    root=$work/$release
    mmdebstrap --quiet --variant=essential "$release" "$root" >/dev/null 2>"$work/log" || { cat "$work/log"; fail "a root of $release"; }
    list() { (cd "$root" && find . -xdev ! -path './proc/*' ! -path './sys/*' ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './tmp/*' | sort); }
    mkdir -p "$root/proc" "$root/sys"
    # dpkg makes these files with its first package and keeps them.
    list >"$work/before"
    cp "${deb[0]}" "$root/tmp/rdiag.deb"
    chroot "$root" dpkg -i /tmp/rdiag.deb >/dev/null || fail "dpkg -i on $release"
    # What dpkg leaves out of a root without documentation is in the package all the same.
    brought "$root" usr/bin/rdiag lib/systemd/system/rdiag-watch.service "${completions[@]}" usr/share/zsh/vendor-completions/_rdiag
    proc "$root"
    verdict "$root" 0:0 && verdict "$root" 65534:65534 || fail "a verdict on $release, as root and as a user"
    unproc "$root"
    chroot "$root" dpkg -P rdiag >/dev/null || fail "dpkg -P on $release"
    list >"$work/after"
    diff "$work/before" "$work/after" || fail "nothing is left on $release"
    say "$release: dpkg -i, a verdict as root and as a user, the recorder off, dpkg -P, nothing left" ok
done

dpkg-deb --contents "${deb[0]}" >"$work/contents"
grep -q ' ./usr/share/man/man1/rdiag\.1\.gz$' "$work/contents" || fail "the .deb has the manual page"
mkdir -p "$work/rpm"
rpm --root "$work/rpm" --initdb
# Only its own database may be there before and after.
rpm --root "$work/rpm" --nodeps --noscripts -i "${rpm[0]}" || fail "rpm -i"
brought "$work/rpm" usr/bin/rdiag usr/lib/systemd/system/rdiag-watch.service usr/share/man/man1/rdiag.1.gz "${completions[@]}" \
    usr/share/zsh/site-functions/_rdiag
proc "$work/rpm"
verdict "$work/rpm" 0:0 && verdict "$work/rpm" 65534:65534 || fail "a verdict in a root of rpm, as root and as a user"
unproc "$work/rpm"
rpm --root "$work/rpm" -e rdiag || fail "rpm -e"
left=$(cd "$work/rpm" && find . -type f ! -path './var/lib/rpm/*' ! -path './root/*')
[[ -z $left ]] || fail "nothing is left by rpm: $left"
say "rpm: installed, a verdict as root and as a user, removed, nothing left" ok

# The program lies elsewhere here, and not every root is the host's.
sed "s|^ExecStart=/usr/bin/rdiag|ExecStart=$rdiag|" packaging/rdiag-watch.service >"$work/rdiag-watch.service"
systemd-analyze verify --man=no "$work/rdiag-watch.service" || fail "systemd-analyze verify"
systemd-analyze security --offline=true --threshold=50 "$work/rdiag-watch.service" >"$work/log" || { tail -1 "$work/log"; fail "systemd-analyze security"; }
say "rdiag-watch.service: verified, exposure at most 5.0" ok

lintian --tag-display-limit 0 --allow-root --fail-on error "${deb[0]}" || fail "lintian"
say "lintian: no errors" ok

if [[ ${1:-} == --again ]]; then
    git clone --quiet . "$work/again"
    (cd "$work/again" && CARGO_TARGET_DIR="$work/built" packaging/build.sh >/dev/null)
    for file in stage/rdiag "$(basename "${archive[0]}")" "$(basename "${deb[0]}")" "$(basename "${rpm[0]}")"; do
        cmp "$packages/$file" "$work/again/target/packages/$file" || fail "the same bytes from another folder: $file"
    done
    say "the same bytes from another folder" ok
fi
