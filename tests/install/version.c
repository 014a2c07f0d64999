/* A program that uses the installed C library: prints its version. */
#include <nibble/nibble.h>
#include <stdio.h>

int main(void) {
  puts(nibble_version());
  return 0;
}
