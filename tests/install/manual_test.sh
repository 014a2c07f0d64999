#!/usr/bin/env bash
# The manual's pages as man and mandoc read them, and completions as the shells use them. What is not installed is
# left out, bash never.
#
#   tests/install/manual_test.sh NIBBLE
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
nibble=$1
SOURCE_DATE_EPOCH=1767225600 "$nibble" manual -o "$scratch"
left_out=

die() {
  echo "manual_test.sh: $*" >&2
  exit 1
}

# --- pages
commands=$("$nibble" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
for command in $commands; do
  [[ -s $scratch/man/nibble-$command.1 ]] || die "$command has no page"
done
(($(find "$scratch/man" -type f | wc -l) == $(wc -w <<<"$commands") + 1)) || die "there are pages of no command"
grep -q '^\.TH NIBBLE 1 2026-01-01 ' "$scratch/man/nibble.1" || die "SOURCE_DATE_EPOCH does not date the pages"
if command -v groff >/dev/null; then
  for page in "$scratch"/man/*.1; do
    warnings=$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null)
    [[ -z $warnings ]] || die "$warnings"
  done
else
  left_out+=" groff"
fi
if command -v mandoc >/dev/null; then
  mandoc -Tlint -W style "$scratch"/man/*.1 || die "mandoc finds fault with the pages"
  text=$(mandoc -Tutf8 "$scratch/man/nibble-run.1" | sed 's/.\x08//g')
  [[ $text == *'--max-tokens N'* ]] || die "nibble-run(1) does not show --max-tokens"
else
  left_out+=" mandoc"
fi

# --- completions: completed WORD... prints what bash offers for the last word
completed() {
  bash --norc --noprofile -c '
    source "$1"
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _nibble 2>/dev/null
    printf "%s\n" "${COMPREPLY[@]}"' bash "$scratch/bash/nibble" "$@" | tr '\n' ' '
}

expect() {
  [[ $1 == "$2" ]] || die "completion gives '$1', not '$2'"
}

expect "$(completed nibble qua)" "quantize "
expect "$(completed nibble bench)" "bench bench-serve "
expect "$(completed nibble --vers)" "--version "
expect "$(completed nibble run demo --max-t)" "--max-tokens "
expect "$(completed nibble run demo --device c)" "cpu cuda "
expect "$(completed nibble run demo --device = cu)" "cuda "
expect "$(completed nibble run demo --device =)" "cpu cuda "
expect "$(completed nibble embed demo --pooling m)" "mean max "
expect "$(completed nibble quantize demo --recipe gptq-w4g128-s)" "gptq-w4g128-search gptq-w4g128-search-refine "
expect "$(completed nibble run demo --threads '')" " "
expect "$(completed nibble run models/)" " " # files: left to bash
expect "$(completed nibble nothing --)" " "
if command -v zsh >/dev/null; then
  zsh -n "$scratch/zsh/_nibble"
else
  left_out+=" zsh"
fi
if command -v fish >/dev/null; then
  offered=$(HOME=$scratch timeout 60 fish -N -c "source $scratch/fish/nibble.fish; complete -C 'nibble embed demo --pooling m'" | cut -f 1)
  [[ $offered == $'max\nmean' || $offered == $'mean\nmax' ]] || die "fish offers '$offered'"
  offered=$(HOME=$scratch timeout 60 fish -N -c "source $scratch/fish/nibble.fish; complete -C 'nibble qua'")
  [[ $offered == quantize* ]] || die "fish offers '$offered'"
else
  left_out+=" fish"
fi
echo "manual: $(wc -w <<<"$commands") commands; not installed:${left_out:- nothing}"
