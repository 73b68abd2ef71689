#!/bin/sh
# Installs the newest release of Cachalot for this machine, after a check of its SHA-256:
#
#     sh install.sh
#
# CACHALOT_VERSION=v0.2.0 selects a version, CACHALOT_BIN the directory (default: ~/.local/bin), and
# CACHALOT_RELEASES another address of the releases.
set -eu

releases=${CACHALOT_RELEASES:-https://github.com/cachalot/cachalot/releases}
directory=${CACHALOT_BIN:-$HOME/.local/bin}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

case "$(uname -s)" in
Linux) system=unknown-linux-musl ;;
Darwin) system=apple-darwin ;;
*) fail "there is no archive for $(uname -s); on Windows, unpack the .zip of a release" ;;
esac
case "$(uname -m)" in
x86_64 | amd64) machine=x86_64 ;;
arm64 | aarch64) machine=aarch64 ;;
*) fail "there is no archive for $(uname -m); \`cargo install --path crates/cli\` builds the program" ;;
esac
# The C library of the system is faster where it is recent enough.
if [ "$system" = unknown-linux-musl ]; then
    version=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d . -f 2) || version=
    if [ "${version:-0}" -ge 35 ] 2>/dev/null; then
        system=unknown-linux-gnu
    fi
fi

if command -v curl >/dev/null; then
    fetch() { curl -fsSL --proto '=https,http' "$1" -o "$2"; }
elif command -v wget >/dev/null; then
    fetch() { wget -q "$1" -O "$2"; }
else
    fail 'curl or wget is needed'
fi
if command -v sha256sum >/dev/null; then
    digest() { sha256sum "$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null; then
    digest() { shasum -a 256 "$1" | cut -d ' ' -f 1; }
else
    fail 'sha256sum or shasum is needed to check the archive'
fi

case "${CACHALOT_VERSION:-}" in
'') place=$releases/latest/download ;;
*) place=$releases/download/$CACHALOT_VERSION ;;
esac
name=cachalot-$machine-$system
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch "$place/$name.tar.gz" "$work/archive" || fail "$place/$name.tar.gz cannot be fetched"
fetch "$place/SHA256SUMS" "$work/sums" || fail "$place/SHA256SUMS cannot be fetched"
expected=$(grep " [ *]*$name.tar.gz\$" "$work/sums" | cut -d ' ' -f 1)
[ -n "$expected" ] || fail "SHA256SUMS does not name $name.tar.gz"
[ "$(digest "$work/archive")" = "$expected" ] || fail "the SHA-256 of $name.tar.gz is not $expected; nothing is installed"

tar -xzf "$work/archive" -C "$work"
mkdir -p "$directory"
# Replaced by a rename, so that a running program is not disturbed.
cp "$work/$name/cachalot" "$directory/.cachalot.new"
chmod 755 "$directory/.cachalot.new"
mv -f "$directory/.cachalot.new" "$directory/cachalot"
"$directory/cachalot" --version
case ":$PATH:" in
*":$directory:"*) ;;
*) echo "add $directory to PATH to start it as \`cachalot\`" ;;
esac
