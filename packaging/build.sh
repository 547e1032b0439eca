#!/usr/bin/env bash
# Builds what is released, into target/packages/: one static file that needs no library of its host, .deb and .rpm around it, a list of
# its crates (SBOM), checksums. A release workflow only calls this script; packaging/check.sh says whether the result holds.
#
#   packaging/build.sh [--tools-only]
#
# The same commit gives the same bytes in any folder: paths are remapped, times are those of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=(cargo-auditable:0.7 cargo-deb:3 cargo-generate-rpm:0.21 cargo-cyclonedx:0.5)
for tool in "${tools[@]}"; do
    command -v "${tool%:*}" >/dev/null || cargo install --quiet --locked --debug "${tool%:*}@^${tool#*:}"
done
[[ ${1:-} != --tools-only ]] || exit 0

host=$(rustc -vV | sed -n 's/^host: //p')
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$PWD/target/packages
stage=$out/stage
rm -rf "$out"
mkdir -p "$stage"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C

# The folders that a compiler writes into its output: here, of the crates, of what build scripts made.
remap=(--remap-path-prefix "$PWD=/rdiag" --remap-path-prefix "$built=/target")
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    remap+=(--remap-path-prefix "$registry=/crates")
done
# +crt-static: no loader and no glibc of the host. The gnu target and not musl: its malloc is faster.
# Relocations are packed (glibc 2.36 or newer, of the machine that builds): 0.7 MB less.
flags=(-C target-feature=+crt-static -C relocation-model=pie -C link-arg=-Wl,-z,pack-relative-relocs "${remap[@]}")
(IFS=$'\x1f' && export CARGO_ENCODED_RUSTFLAGS="${flags[*]}" &&
    cargo auditable build --locked --profile dist --target "$host" --bin rdiag)

rdiag=$built/$host/dist/rdiag
cp "$rdiag" "$out/rdiag.symbols"
# The list of crates stays: it is a section of its own (.dep-v0).
strip --strip-all -o "$stage/rdiag" "$rdiag"
"$stage/rdiag" man | gzip -9n >"$stage/rdiag.1.gz"
cp packaging/rdiag-watch.service LICENSE-MIT LICENSE-APACHE "$stage/"
"$stage/rdiag" completions bash >"$stage/rdiag.bash"
"$stage/rdiag" completions zsh >"$stage/_rdiag"
"$stage/rdiag" completions fish >"$stage/rdiag.fish"
version=$("$stage/rdiag" --version | sed 's/rdiag //')
printf 'rdiag (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
    "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)" "$(date -Rud "@$SOURCE_DATE_EPOCH")" >"$stage/changelog"
# Packages carry the times of files: those of an old working tree would be others than those of a clone.
find "$stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

# The plain file for those who have no package manager, for cargo-binstall, and for krew (packaging/krew.sh).
plain=rdiag-$version-$host
mkdir "$out/$plain"
cp "$stage"/{rdiag,rdiag.1.gz,rdiag.bash,_rdiag,rdiag.fish} contrib/kubernetes/{kubectl-rdiag,rbac.yaml} README.md LICENSE-MIT LICENSE-APACHE \
    "$out/$plain/"
find "$out/$plain" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
tar --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -C "$out" -c "$plain" | gzip -9n >"$out/$plain.tar.gz"
rm -r "${out:?}/$plain"

cargo deb --quiet --no-build --no-strip --target "$host" --profile dist --output "$out/"
cargo generate-rpm --target "$host" --profile dist --target-dir "$built" --source-date "$SOURCE_DATE_EPOCH" --output "$out/"
# One list for each crate of the workspace is written beside its manifest; that of the program holds all.
cargo cyclonedx --quiet --format json --target "$host" --override-filename rdiag.cdx
mv rdiag.cdx.json "$out/$plain.cdx.json"
find src -name rdiag.cdx.json -delete

cd "$out"
sha256sum "$plain".* ./*.deb ./*.rpm >"SHA256SUMS.$host"
ls -l
