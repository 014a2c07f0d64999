#!/usr/bin/env bash
# Shows what Nibble does, on the small model in models/demo: installs what is needed, builds, compares
# recipes by the damage they do, quantizes the model to 4 bits and lets the result write a few lines.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=models/demo
calibration=$model/texts/calibration.txt
evaluation=$model/texts/evaluation.txt
recipes=f16,w8a8,rtn-w4g128,nf4g64,mxfp4,gptq-w4g128,gptq-w3g128,rtn-w3g128
recipe=gptq-w4g128
output=build/demo-w4
nibble=build/release/nibble

# Prints a command as it can be typed, then runs it.
show() {
  local word
  printf '\n$'
  for word in "$@"; do
    if [[ $word == *" "* ]]; then
      word="\"$word\""
    fi
    printf ' %s' "$word"
  done
  printf '\n'
  "$@"
}

tools/build.sh release nibble

printf '\nWhat each recipe costs (perplexity: lower is better):\n'
show "$nibble" compare "$model" --recipes "$recipes" --calib "$calibration" --text "$evaluation"

printf '\nQuantize to 4 bits:\n'
rm -rf "$output"
show "$nibble" quantize "$model" -o "$output" --recipe "$recipe" --calib "$calibration"

printf '\nLet the 4-bit model write (it has 7 million parameters: it writes English, not sense):\n'
for prompt in "The history of the city begins with" "A library is" "In the morning the captain"; do
  show "$nibble" run "$output" -p "$prompt" -n 40 --temp 0.7 --seed 1
done
