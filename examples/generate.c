/* Continues a prompt, as it comes: generate MODEL PROMPT
 *
 *   cc -std=c11 generate.c -lnibble -o generate
 */
#include <stdio.h>
#include <string.h>

#include "nibble/nibble.h"

static int write_piece(void* user, size_t index, const char* text, size_t bytes) {
  (void)user;
  (void)index;
  return fwrite(text, 1, bytes, stdout) == bytes ? 0 : 1; /* 1 ends the call */
}

static int fail(nibble_status status) {
  fprintf(stderr, "generate: %s: %s\n", nibble_status_name((int)status), nibble_last_error());
  return (int)status;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: generate MODEL PROMPT\n");
    return NIBBLE_USAGE;
  }
  nibble_model* model = NULL;
  nibble_status status = nibble_model_open(argv[1], NULL, &model);
  if (status != NIBBLE_OK) {
    return fail(status);
  }
  nibble_generate_options options;
  nibble_generate_options_init(&options, sizeof options);
  options.max_tokens = 32;
  options.temperature = 0;
  options.on_piece = write_piece;
  const nibble_input prompt = {argv[2], strlen(argv[2]), NULL, 0};
  nibble_texts* texts = NULL;
  fputs(argv[2], stdout);
  status = nibble_generate(model, &prompt, 1, &options, &texts);
  if (status != NIBBLE_OK) {
    nibble_model_close(model);
    return fail(status);
  }
  size_t tokens = 0;
  nibble_texts_tokens(texts, 0, &tokens);
  printf("\n(%zu tokens, %s)\n", tokens, nibble_texts_finish_reason(texts, 0));
  nibble_texts_free(texts);
  nibble_model_close(model);
  return 0;
}
