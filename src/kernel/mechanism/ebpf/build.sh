#!/usr/bin/env bash
# Compiles every program in src/, and nothing else does: users get the objects that are committed beside the sources.
# The result depends on the compiler's version, not on the place: clang 19 of Debian. `build.sh --check` changes nothing
# and fails when a committed object differs from what its source gives.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
out=.
if [[ ${1:-} == --check ]]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
# compile SOURCE: one program.
compile() {
    local source=$1 object=${1%.c}.o
    mkdir -p "$out/$(dirname "$object")"
    clang-19 -target bpf -O2 -g -mcpu=v2 -Wall -Werror -Wno-unknown-attributes \
        -I src/kernel/mechanism/ebpf/include -ffile-prefix-map="$PWD=." -fdebug-compilation-dir=. -c "$source" -o "$out/$object"
    llvm-strip-19 -g "$out/$object"
    llvm-objcopy-19 --remove-section=.rel.BTF --remove-section=.rel.BTF.ext --remove-section=.llvm_addrsig "$out/$object"
    if [[ $out != . ]] && ! cmp -s "$object" "$out/$object"; then
        echo "$object is not what $source gives; run src/kernel/mechanism/ebpf/build.sh" >&2
        return 1
    fi
}
export -f compile
export out
find src -name '*.bpf.c' | sort | xargs -P "$(nproc)" -I{} bash -euc 'compile {}'
