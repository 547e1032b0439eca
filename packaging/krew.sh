#!/usr/bin/env bash
# Prints the manifest by which krew installs `kubectl rdiag`, from the archives that packaging/build.sh made on each architecture. Version,
# platform and SHA-256 are those of the archives; the address is the publisher's and is never made up.
#
#   packaging/krew.sh [--address URL] ARCHIVE… >rdiag.yaml
#
# URL (by default `repository` in Cargo.toml) is where the sources are; archives of a release are expected at
# URL/releases/download/vVERSION/ARCHIVE, where GitHub, Gitea and Forgejo serve them.
set -euo pipefail
die() { printf 'krew.sh: %s\n' "$*" >&2; exit 2; }

address=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
if [[ ${1-} == --address ]]; then
    address=${2-}
    shift 2 || die "--address needs a URL"
fi
[[ -n $address ]] || die "the publisher's address is not known: set repository in Cargo.toml, or give --address URL"
[[ $address =~ ^https://[A-Za-z0-9._~:/-]+[A-Za-z0-9_~-]$ ]] || die "\"$address\" is no https address"
(($#)) || die "no archive was given"

version='' platforms='' seen=' '
for archive in "$@"; do
    name=$(basename "$archive")
    [[ $name =~ ^(rdiag-([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?)-(x86_64|aarch64)-unknown-linux-gnu)\.tar\.gz$ ]] ||
        die "$name is no name of an archive that packaging/build.sh makes"
    folder=${BASH_REMATCH[1]} own=${BASH_REMATCH[2]}
    case ${BASH_REMATCH[4]} in x86_64) arch=amd64 ;; *) arch=arm64 ;; esac
    [[ -z $version || $version == "$own" ]] || die "the archives are of two versions: $version and $own"
    [[ $seen != *" $arch "* ]] || die "two archives are for $arch"
    version=$own seen+="$arch "
    files=$(tar -tzf "$archive") || die "$archive cannot be read"
    for file in kubectl-rdiag rdiag rbac.yaml LICENSE-MIT LICENSE-APACHE; do
        grep -qx "$folder/$file" <<<"$files" || die "$archive has no $folder/$file"
    done
    sha256=$(sha256sum <"$archive")
    platforms+="    - selector:
        matchLabels: {os: linux, arch: $arch}
      uri: $address/releases/download/v$version/$name
      sha256: ${sha256%% *}
      bin: kubectl-rdiag
      files:
        - {from: $folder/kubectl-rdiag, to: .}
        - {from: $folder/rdiag, to: .}
        - {from: $folder/rbac.yaml, to: .}
        - {from: $folder/LICENSE-*, to: .}
"
done

cat <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: rdiag
spec:
  version: v$version
  homepage: $address
  shortDescription: Say which resource limits each node, and who uses it
  description: |
    Records every Linux node of a cluster in the same seconds, by a pod on
    each, and judges them together by the USE method: what is common, which
    node is unlike the others, which could not be measured and why.
  caveats: |
    It needs an image with rdiag that the nodes can pull (-i IMAGE), and a
    namespace that allows privileged pods: rbac.yaml beside the plugin.
  platforms:
${platforms%$'\n'}
MANIFEST
