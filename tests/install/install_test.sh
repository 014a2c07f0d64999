#!/usr/bin/env bash
# Installs a build into a prefix, moves that to another place, and uses what is there as users do.
#
#   tests/install/install_test.sh BUILD SOURCE CMAKE
set -euo pipefail

build=$1
source=$2
cmake=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() {
  echo "install_test.sh: $*" >&2
  exit 1
}

is_there() {
  [[ -s $prefix/$1 ]] || die "$1 is not installed"
}

"$cmake" --install "$build" --prefix "$scratch/first" >"$scratch/log" || die "$(cat "$scratch/log")"
mv "$scratch/first" "$scratch/moved"
prefix=$scratch/moved
nibble=$prefix/bin/nibble
documents=$prefix/share/doc/nibble

for file in LICENSE README.md CHANGELOG.md docs/install.md docs/cli.md examples/serve.toml examples/recipe.json; do
  is_there "share/doc/nibble/$file"
done
if grep -rlF "$build" "$prefix" --include='*.cmake' --include='*.pc' --include='*.1' --include='*.service'; then
  die "these files name the build tree"
fi

# The program, away from the source tree, with nothing of it in reach but the model.
mkdir "$scratch/elsewhere"
cd "$scratch/elsewhere"
version=$("$nibble" --version)
[[ $version == nibble\ [0-9]* ]] || die "--version says '$version'"
written=$("$nibble" run "$source/models/demo" -p "A library is" -n 8 --temp 0 -q)
expected=$("$build/nibble" run "$source/models/demo" -p "A library is" -n 8 --temp 0 -q)
[[ -n $written && $written == "$expected" ]] || die "the installed program writes '$written', not '$expected'"
"$nibble" serve --config "$documents/examples/serve.toml" --print-config | grep -q '"max-batch": *16' ||
  die "examples/serve.toml is not what the server reads"
"$nibble" quantize "$source/models/demo" -o made --recipe "$documents/examples/recipe.json" -q \
  --calib "$source/models/demo/texts/calibration.txt" --samples 2 --seq-len 64 >/dev/null
"$nibble" inspect made | grep -q first-block-exact || die "examples/recipe.json is not what was quantized with"

# What other projects find.
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(nibble 0.1 REQUIRED COMPONENTS program)
get_target_property(place nibble::program LOCATION)
file(WRITE place.txt ${place})
if(WITH_LIBRARY)
  find_package(nibble 0.1 REQUIRED COMPONENTS library)
  add_executable(user ${MAIN})
  target_link_libraries(user PRIVATE nibble::nibble)
endif()
END
with_library=OFF
if [[ -n $(find "$prefix" -name nibble.pc) ]]; then
  with_library=ON
fi
"$cmake" -S . -B found -DCMAKE_PREFIX_PATH="$prefix" -DWITH_LIBRARY=$with_library \
  -DMAIN="$source/tests/install/version.c" >log 2>&1 || die "$(cat log)"
[[ $(<place.txt) == "$nibble" ]] || die "find_package(nibble) finds $(<place.txt)"
if "$cmake" -S . -B refused -DCMAKE_PREFIX_PATH="$prefix" -DWITH_LIBRARY=ON -DMAIN=none.c >log 2>&1 &&
  [[ $with_library == OFF ]]; then
  die "find_package(nibble) finds a library that is not there"
fi

if [[ $with_library == ON ]]; then
  "$cmake" --build found >log 2>&1 || die "$(cat log)"
  [[ "nibble $(found/user)" == "$version" ]] || die "the library is of version '$(found/user)', the program of '$version'"
  folder=$(dirname "$(find "$prefix" -name nibble.pc)")
  export PKG_CONFIG_PATH=$folder
  [[ "nibble $(pkg-config --modversion nibble)" == "$version" ]] || die "nibble.pc has another version"
  read -ra words <<<"$(pkg-config --cflags --libs nibble)"
  cc -Wall -Werror -o user "$source/tests/install/version.c" "${words[@]}"
  export LD_LIBRARY_PATH
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir nibble)
  ./user >/dev/null
  cc -std=c11 -Wall -Wextra -Werror -o generate "$source/examples/generate.c" "${words[@]}"
  ./generate "$source/models/demo" "A library is" | grep -q '(32 tokens, length)' || die "examples/generate.c writes nothing"
  if ./generate none "A library is" 2>log || ! grep -q '^generate: input/output: ' log; then
    die "examples/generate.c does not say what fails: $(<log)"
  fi
fi
echo "installed: program, documents, examples; C library: $with_library"
