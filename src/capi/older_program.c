/* A program that was compiled with an older header (older_header.cmake) and runs with the library
 * of today: older_program MODEL. What lies behind its structs must neither be read nor written. */
#include <nibble/nibble.h>
#include <stdio.h>
#include <string.h>

#define BEHIND 256
#define GUARD 0xa5

/* A struct of the older header, and what a library that took it for one of today's would touch. */
#define GUARDED(type, name)       \
  struct {                        \
    type options;                 \
    unsigned char behind[BEHIND]; \
  } name;                         \
  memset(&(name), GUARD, sizeof(name))

static int failures = 0;

static void expect(int holds, const char* what) {
  if (!holds) {
    fprintf(stderr, "older_program: %s (%s)\n", what, nibble_last_error());
    ++failures;
  }
}

static int untouched(const unsigned char* behind) {
  for (int i = 0; i < BEHIND; ++i) {
    if (behind[i] != GUARD) {
      return 0;
    }
  }
  return 1;
}

static nibble_model* open_model(const char* path) {
  GUARDED(nibble_open_options, open);
  nibble_open_options_init(&open.options, sizeof open.options);
  expect(untouched(open.behind), "nibble_open_options_init writes behind the struct");
  open.options.device = "cpu";
  open.options.context = 128;
  nibble_model* model = NULL;
  expect(nibble_model_open(path, &open.options, &model) == NIBBLE_OK, "the model does not open");
  return model;
}

static void check_facts(nibble_model* model) {
  GUARDED(nibble_facts, facts);
  facts.options.struct_size = sizeof facts.options;
  expect(nibble_model_facts(model, &facts.options) == NIBBLE_OK, "there are no facts");
  expect(facts.options.vocabulary > 0 && facts.options.context == 128, "the facts are wrong");
  expect(untouched(facts.behind), "nibble_model_facts writes behind the struct");
}

static void check_generate(nibble_model* model) {
  GUARDED(nibble_generate_options, generate);
  nibble_generate_options_init(&generate.options, sizeof generate.options);
  expect(untouched(generate.behind), "nibble_generate_options_init writes behind the struct");
  generate.options.max_tokens = 4;
  generate.options.temperature = 0;
  const nibble_input prompt = {"The library", strlen("The library"), NULL, 0};
  nibble_texts* texts = NULL;
  size_t tokens = 0;
  expect(nibble_generate(model, &prompt, 1, &generate.options, &texts) == NIBBLE_OK,
         "nothing is written");
  nibble_texts_tokens(texts, 0, &tokens);
  expect(tokens == 4, "the options are not read");
  nibble_texts_free(texts);
}

static void check_embed(nibble_model* model) {
  GUARDED(nibble_read_options, read);
  nibble_read_options_init(&read.options, sizeof read.options);
  const nibble_input text = {"The library", strlen("The library"), NULL, 0};
  float* values = NULL;
  size_t rows = 0;
  size_t columns = 0;
  expect(nibble_embed(model, &text, 1, &read.options, &values, &rows, &columns) == NIBBLE_OK,
         "nothing is embedded");
  expect(rows == 1 && columns > 0, "the embedding has another shape");
  nibble_free(values);
}

static void check_evaluate(nibble_model* model) {
  GUARDED(nibble_evaluate_options, evaluate);
  nibble_evaluate_options_init(&evaluate.options, sizeof evaluate.options);
  evaluate.options.seq_len = 16;
  evaluate.options.max_tokens = 32;
  const char* text =
      "A library is a collection of books that people borrow and read, and bring "
      "back when they have read them, so that others can read them too. ";
  char* json = NULL;
  expect(nibble_evaluate(model, text, strlen(text), &evaluate.options, &json) == NIBBLE_OK,
         "nothing is measured");
  nibble_free(json);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: older_program MODEL\n");
    return NIBBLE_USAGE;
  }
  nibble_model* model = open_model(argv[1]);
  if (model != NULL) {
    check_facts(model);
    check_generate(model);
    check_embed(model);
    check_evaluate(model);
    nibble_model_close(model);
  }
  return failures == 0 ? NIBBLE_OK : NIBBLE_FAILED;
}
