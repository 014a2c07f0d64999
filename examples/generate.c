/* Continues a prompt, as it comes: generate MODEL PROMPT
 *   cc -std=c11 generate.c $(pkg-config --cflags --libs nibble) -o generate */
#include <nibble/nibble.h>
#include <stdio.h>
#include <string.h>

static int write_piece(void* user, size_t index, const char* text, size_t bytes) {
  (void)user, (void)index;
  return fwrite(text, 1, bytes, stdout) == bytes ? 0 : 1; /* 1 ends the call */
}

static nibble_status generate(nibble_model* model, const char* text, nibble_texts** texts) {
  const nibble_input prompt = {text, strlen(text), NULL, 0};
  nibble_generate_options options;
  nibble_generate_options_init(&options, sizeof options);
  options.max_tokens = 32;
  options.temperature = 0;
  options.on_piece = write_piece;
  fputs(text, stdout);
  return nibble_generate(model, &prompt, 1, &options, texts);
}

int main(int argc, char** argv) {
  nibble_model* model = NULL;
  nibble_texts* texts = NULL;
  size_t tokens = 0;
  if (argc != 3) {
    return fprintf(stderr, "usage: generate MODEL PROMPT\n"), NIBBLE_USAGE;
  }
  nibble_status status = nibble_model_open(argv[1], NULL, &model);
  if (status == NIBBLE_OK && (status = generate(model, argv[2], &texts)) == NIBBLE_OK) {
    nibble_texts_tokens(texts, 0, &tokens);
    printf("\n(%zu tokens, %s)\n", tokens, nibble_texts_finish_reason(texts, 0));
  } else {
    fprintf(stderr, "generate: %s: %s\n", nibble_status_name((int)status), nibble_last_error());
  }
  nibble_texts_free(texts);
  nibble_model_close(model);
  return (int)status;
}
