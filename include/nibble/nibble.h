/* Nibble as a library: open a model, let it write, embed, label and score texts, quantize it.
 *
 *   nibble_model* model = NULL;
 *   if (nibble_model_open("llama-w4", NULL, &model) != NIBBLE_OK) {
 *     fprintf(stderr, "%s\n", nibble_last_error());
 *   }
 *
 * Rules that hold for every function:
 *
 *  - It returns a nibble_status. What failed is said by nibble_last_error() (of this thread) and by
 *    nibble_model_error() (of this model), in one line. Where it fails, results are not set.
 *  - Texts are UTF-8. A text with its length may hold zeros; lengths are in bytes.
 *  - Options structs begin with struct_size, and a NULL in their place means the defaults.
 *    nibble_*_init() fills one with the defaults. A program that was compiled with an older header
 *    passes a smaller struct: fields that it does not have are the defaults. A larger struct than
 *    the library knows is refused where the fields beyond are not zero.
 *  - What is returned in a pointer to a pointer is released with nibble_free(), a nibble_texts with
 *    nibble_texts_free().
 *  - One model may be used by several threads: calls wait for one another, and so does everything
 *    that one call is given runs together in one batch. Several models run at the same time.
 *  - Callbacks run on the thread that called, within the call. They must return (no longjmp, no
 *    exception), and call nothing with the same model but nibble_model_cancel().
 *  - Nothing is printed, no signal handler is set, and nothing ends the process. But files of
 *    models are mapped: who truncates them while they are used gets SIGBUS.
 */
#ifndef NIBBLE_NIBBLE_H
#define NIBBLE_NIBBLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIBBLE_API __attribute__((visibility("default")))
#else
#define NIBBLE_API
#endif

/* Why a call failed; the first are the exit codes of the program. */
typedef enum nibble_status {
  NIBBLE_OK = 0,
  NIBBLE_FAILED = 1,        /* the work failed */
  NIBBLE_USAGE = 2,         /* the arguments were wrong */
  NIBBLE_INVALID_MODEL = 3, /* a file of a model, or a data file, is malformed or unsupported */
  NIBBLE_OUT_OF_MEMORY = 4,
  NIBBLE_IO = 5,        /* a file cannot be read or written */
  NIBBLE_INTEGRITY = 6, /* stored data contradict each other */
  NIBBLE_CANCELLED = 8  /* by nibble_model_cancel(), or by a callback */
} nibble_status;

/* "0.1.0". */
NIBBLE_API const char* nibble_version(void);

/* "usage"; "unknown" for other numbers. */
NIBBLE_API const char* nibble_status_name(int status);

/* Why the last call of this thread that failed did; "" where none has. Valid until the next one. */
NIBBLE_API const char* nibble_last_error(void);

/* Releases what a function returned; NULL is nothing. */
NIBBLE_API void nibble_free(void* memory);

/* ---- models ---- */

typedef struct nibble_model nibble_model;

/* Remarks and warnings, a line each, without a line break. */
typedef void (*nibble_log_callback)(void* user, const char* line);

typedef struct nibble_open_options {
  size_t struct_size;
  const char* device;  /* "cpu", "cuda", "cuda:1"; "auto" or NULL: a GPU that runs the model, else
                          the CPU */
  int32_t threads;     /* of the CPU; 0: one for each core */
  int64_t context;     /* tokens of prompt and text; 0: what the model was made for */
  int64_t max_batch;   /* texts that are written together; 0: 16 */
  int64_t kv_bytes;    /* of the KV cache; 0: for max_batch contexts, or what a GPU has free */
  const char* kv_type; /* "f16" (NULL), "f32", "fp8", "int8", "int4", "int8-int4" */
  const char* activations;   /* of compressed layers: "int8" (NULL), "int16", "float" */
  const char* lora;          /* folder of a PEFT adapter to run beside the model; NULL: none */
  double lora_scale;         /* multiplies what the adapter adds */
  const char* chat_template; /* Jinja, in place of the model's own; NULL: not */
  nibble_log_callback log;   /* during nibble_model_open(); NULL: none */
  void* log_user;
} nibble_open_options;

NIBBLE_API void nibble_open_options_init(nibble_open_options* options, size_t struct_size);

/* A Hugging Face folder, a compressed folder or a GGUF file. */
NIBBLE_API nibble_status nibble_model_open(const char* path, const nibble_open_options* options,
                                           nibble_model** model);

/* NULL is nothing. No call may use the model any more. */
NIBBLE_API void nibble_model_close(nibble_model* model);

/* Why the last call with this model that failed did; "" where none has. Valid until the next. */
NIBBLE_API const char* nibble_model_error(const nibble_model* model);

/* From any thread: ends the call that runs with the model, which returns NIBBLE_CANCELLED soon, as
 * do calls that wait for it. Nothing where none runs. */
NIBBLE_API void nibble_model_cancel(nibble_model* model);

typedef enum nibble_kind {
  NIBBLE_DECODER = 0,        /* continues texts */
  NIBBLE_ENCODER = 1,        /* reads texts: embeds or labels them */
  NIBBLE_ENCODER_DECODER = 2 /* reads texts and writes others */
} nibble_kind;

/* Strings are valid until the model is closed. */
typedef struct nibble_facts {
  size_t struct_size; /* set by the caller */
  int32_t kind;       /* a nibble_kind */
  int32_t bos;        /* ids of tokens; -1: none */
  int32_t eos;
  int32_t pad;
  int32_t labels; /* of a classifier; 0: there is none */
  int64_t vocabulary;
  int64_t context; /* tokens of prompt and text; of an encoder, of a text */
  int64_t hidden;
  int64_t layers;
  int64_t parameters;        /* 0: not known */
  int64_t weight_bytes;      /* as stored */
  double bits_per_weight;    /* of the blocks' linear layers */
  const char* family;        /* "llama" */
  const char* recipe;        /* "gptq-w4g128"; "" where nothing is compressed */
  const char* device;        /* "cpu", "cuda" */
  const char* chat_template; /* Jinja; "" where there is none */
} nibble_facts;

NIBBLE_API nibble_status nibble_model_facts(nibble_model* model, nibble_facts* facts);

/* The name of a label of a classifier; NULL where there is no such label. */
NIBBLE_API const char* nibble_model_label(const nibble_model* model, int32_t index);

/* ---- tokens ---- */

typedef struct nibble_tokenize_options {
  size_t struct_size;
  int32_t add_special;   /* 1: with the tokens that the model expects around a text (default) */
  int32_t parse_special; /* 1: control tokens written in the text become their ids (default) */
} nibble_tokenize_options;

NIBBLE_API void nibble_tokenize_options_init(nibble_tokenize_options* options, size_t struct_size);

NIBBLE_API nibble_status nibble_tokenize(nibble_model* model, const char* text, size_t bytes,
                                         const nibble_tokenize_options* options, int32_t** ids,
                                         size_t* count);

/* A text, ended by a zero that is not counted in `bytes` (may be NULL). */
NIBBLE_API nibble_status nibble_detokenize(nibble_model* model, const int32_t* ids, size_t count,
                                           int32_t skip_special, char** text, size_t* bytes);

/* A text, or the ids of its tokens where `ids` is not NULL. This struct never changes. */
typedef struct nibble_input {
  const char* text;
  size_t bytes;
  const int32_t* ids;
  size_t count;
} nibble_input;

/* ---- writing ---- */

/* What became certain of text `index`, in valid UTF-8; not ended by a zero. Anything but 0 ends the
 * call with NIBBLE_CANCELLED. */
typedef int (*nibble_piece_callback)(void* user, size_t index, const char* text, size_t bytes);

/* The defaults are those of nibble run. */
typedef struct nibble_generate_options {
  size_t struct_size;
  int64_t max_tokens;        /* 0: 128; of an encoder-decoder what the model says */
  int64_t min_tokens;        /* no end before so many */
  double temperature;        /* 0.8; 0: always the most probable token */
  int64_t top_k;             /* 40; 0: all */
  double top_p;              /* 0.95 */
  double min_p;              /* 0.05 */
  double repetition_penalty; /* 1 */
  double presence_penalty;
  double frequency_penalty;
  uint64_t seed;           /* text i is drawn with seed + i */
  const char* const* stop; /* strings; the text ends before the first of them */
  size_t stop_count;
  const int32_t* stop_tokens;
  size_t stop_token_count;
  int32_t ignore_eos;        /* 1: go on past the model's end of text */
  int32_t log_probabilities; /* -1: none (default); else of so many tokens beside the chosen one */
  const char* json_schema;   /* at most one of these says what the text must be */
  const char* regex;
  const char* grammar;         /* GBNF */
  const char* source_language; /* of encoder-decoders that know languages: "en_XX" */
  const char* target_language;
  int64_t beams;                  /* of encoder-decoders: 0: what the model says */
  nibble_piece_callback on_piece; /* NULL: none */
  void* user;
} nibble_generate_options;

NIBBLE_API void nibble_generate_options_init(nibble_generate_options* options, size_t struct_size);

/* Texts that were written. */
typedef struct nibble_texts nibble_texts;

/* One text for each prompt, all together. An encoder-decoder reads the prompts and writes as its
 * generation_config.json says, a text in one piece; of the options it takes max_tokens, min_tokens,
 * beams, the languages, and a temperature of 0, and refuses others. */
NIBBLE_API nibble_status nibble_generate(nibble_model* model, const nibble_input* prompts,
                                         size_t count, const nibble_generate_options* options,
                                         nibble_texts** texts);

/* Continues a conversation, as the chat template of the model writes it. `messages`: a JSON array
 * of
 * {"role", "content"} as in OpenAI's API; `tools`: an array of tools in the same form, or NULL.
 * Calls of tools are not part of the text: see nibble_texts_tool_calls(). */
NIBBLE_API nibble_status nibble_chat(nibble_model* model, const char* messages, const char* tools,
                                     const nibble_generate_options* options, nibble_texts** texts);

/* The ids of the prompt that nibble_chat() gives the model. */
NIBBLE_API nibble_status nibble_chat_prompt(nibble_model* model, const char* messages,
                                            const char* tools, int32_t** ids, size_t* count);

NIBBLE_API size_t nibble_texts_count(const nibble_texts* texts);
/* Ended by a zero; `bytes` may be NULL. Of these functions, NULL where there is no such text. */
NIBBLE_API const char* nibble_texts_text(const nibble_texts* texts, size_t index, size_t* bytes);
NIBBLE_API const int32_t* nibble_texts_tokens(const nibble_texts* texts, size_t index,
                                              size_t* count);
/* "stop" or "length"; "tool_calls". */
NIBBLE_API const char* nibble_texts_finish_reason(const nibble_texts* texts, size_t index);
/* Tokens of the prompt. */
NIBBLE_API size_t nibble_texts_prompt_tokens(const nibble_texts* texts, size_t index);
/* A JSON array of {"token", "log_probability", "rank", "most_probable": [{"token",
 * "log_probability"}]}, one for each token; "[]" where it was not asked for. */
NIBBLE_API const char* nibble_texts_log_probabilities(const nibble_texts* texts, size_t index);
/* A JSON array of {"id", "type": "function", "function": {"name", "arguments"}}; "[]". */
NIBBLE_API const char* nibble_texts_tool_calls(const nibble_texts* texts, size_t index);
NIBBLE_API void nibble_texts_free(nibble_texts* texts);

/* The JSON of one event of a stream. Anything but 0 ends the call with NIBBLE_CANCELLED. */
typedef int (*nibble_event_callback)(void* user, const char* json);

/* What nibble serve answers to a body that is sent to "/v1/" and the route, which is "completions"
 * or "chat/completions". With "stream": true in the request, the answer comes in events, and
 * `answer` becomes NULL. */
NIBBLE_API nibble_status nibble_openai(nibble_model* model, const char* route, const char* request,
                                       nibble_event_callback on_event, void* user, char** answer);

/* ---- numbers ---- */

typedef struct nibble_read_options {
  size_t struct_size;
  int64_t max_tokens;  /* texts are cut to; 0: what the model takes */
  int32_t no_truncate; /* 1: texts that are too long are refused */
  int32_t normalize;   /* of embeddings: 1: to length 1 also where the model does not say so */
  const char* pooling; /* of an encoder's embeddings: "first", "mean", "max"; NULL: as the model
                          says, or the mean */
} nibble_read_options;

NIBBLE_API void nibble_read_options_init(nibble_read_options* options, size_t struct_size);

/* Embeddings, row-major [rows, columns]: a row for each text. A decoder gives the mean of its last
 * hidden states, of length 1. */
NIBBLE_API nibble_status nibble_embed(nibble_model* model, const nibble_input* texts, size_t count,
                                      const nibble_read_options* options, float** values,
                                      size_t* rows, size_t* columns);

/* What a classifier says of texts, or of pairs where `pairs` is not NULL: as nibble classify
 * --json,
 * {"results": [{"label", "logits"}], "truncated"}; of a model that labels tokens [{"tokens":
 * [{"token", "label", "logits"}]}]. */
NIBBLE_API nibble_status nibble_classify(nibble_model* model, const nibble_input* texts,
                                         const nibble_input* pairs, size_t count,
                                         const nibble_read_options* options, char** json);

/* How probable a continuation is. This struct never changes. */
typedef struct nibble_likelihood {
  double log_likelihood; /* nats, summed over the tokens of the continuation */
  int32_t greedy;        /* 1: each of them is the most probable one */
  int32_t tokens;        /* of the continuation */
} nibble_likelihood;

/* log P(continuation | context) of a decoder, for each pair, by the rule of lm-evaluation-harness.
 * An empty context is the token that begins a text. `results` has `count` places. */
NIBBLE_API nibble_status nibble_score(nibble_model* model, const nibble_input* contexts,
                                      const nibble_input* continuations, size_t count,
                                      nibble_likelihood* results);

/* Logits, row-major [rows, columns]. Of a decoder: a row of the vocabulary for each id, which is
 * what it expects behind it. Of an encoder: of its masked language model for each id, or else of
 * its classifier. Of an encoder-decoder: for each id of `target`, which stands behind the start
 * token, what it expects in its place when it has read `ids`. Others have no target: NULL. */
NIBBLE_API nibble_status nibble_forward(nibble_model* model, const int32_t* ids, size_t count,
                                        const int32_t* target, size_t target_count, float** logits,
                                        size_t* rows, size_t* columns);

/* ---- quantizing and measuring ---- */

/* Progress of a long job: `done` of `total` steps of a part of it. Anything but 0 ends the call
 * with NIBBLE_CANCELLED. */
typedef int (*nibble_progress_callback)(void* user, const char* job, int64_t done, int64_t total,
                                        const char* note);

typedef struct nibble_quantize_options {
  size_t struct_size;
  const char* device;                   /* "cpu" (NULL), "cuda", "cuda:1" */
  int32_t threads;                      /* 0: one for each core */
  const char* const* calibration_files; /* UTF-8; none: the model writes its own text */
  size_t calibration_count;
  int64_t samples;           /* calibration windows; 0: as nibble quantize */
  int64_t seq_len;           /* tokens of a window; 0: as nibble quantize */
  uint64_t seed;             /* of text that the model writes */
  const char* output_scheme; /* also rounds the output layer; NULL: not */
  const char* parts;         /* only these parts of each layer: "qkv,mlp-in"; NULL: all */
  double target_bits;        /* mix formats: at most this many bits per weight; 0: not */
  int64_t fit_bytes;         /* mix formats: weights of at most this size; 0: not */
  int64_t memory;            /* bytes to aim at; 0: any */
  const char* adapter;       /* folder of a PEFT adapter to merge first; NULL: none */
  int32_t resume;            /* 1: go on with an interrupted job for the same output */
  nibble_progress_callback on_progress;
  nibble_log_callback log;
  void* user; /* of both */
} nibble_quantize_options;

NIBBLE_API void nibble_quantize_options_init(nibble_quantize_options* options, size_t struct_size);

/* Makes a compressed folder of a model. `recipe`: a preset or a .json file. `json` as of nibble
 * quantize --json; may be NULL. */
NIBBLE_API nibble_status nibble_quantize(const char* model, const char* recipe, const char* output,
                                         const nibble_quantize_options* options, char** json);

/* The weights of one layer, float32, row-major [rows, columns]: y[row] = sum of x[column] * value.
 * They are valid within the call. Anything but 0 ends nibble_dequantize() with NIBBLE_CANCELLED. */
typedef int (*nibble_weights_callback)(void* user, const char* layer, const float* values,
                                       size_t rows, size_t columns);

/* The weights of all compressed layers of a model, one layer after another, as plain layers have
 * them: decoded, in the order of the layer's inputs, and without the matrices that turn inputs.
 * `layer` is what stands before ".weight" in the original ("model.layers.0.mlp.up_proj"). What is
 * not compressed is left out. */
NIBBLE_API nibble_status nibble_dequantize(const char* model, nibble_weights_callback on_weights,
                                           void* user);

/* The names of the presets, a JSON array. */
NIBBLE_API nibble_status nibble_recipes(char** json);

typedef struct nibble_evaluate_options {
  size_t struct_size;
  int64_t seq_len;         /* tokens of a window; 0: what the model was made for */
  int64_t max_tokens;      /* only the first tokens of the text; 0: all */
  nibble_model* reference; /* to compare the predictions with; NULL: none */
  nibble_progress_callback on_progress;
  void* user;
} nibble_evaluate_options;

NIBBLE_API void nibble_evaluate_options_init(nibble_evaluate_options* options, size_t struct_size);

/* Perplexity of a text. `json` as of nibble eval --json. nibble eval keeps keys and values in
 * float32: open the model with kv_type "f32" for the same figures. */
NIBBLE_API nibble_status nibble_evaluate(nibble_model* model, const char* text, size_t bytes,
                                         const nibble_evaluate_options* options, char** json);

/* What recipes cost on a text: {"model", "rows": [...]} as of nibble compare --json, the first row
 * for the model as it is. Options of nibble_quantize() that say how a file is written are not used,
 * nor are target_bits, fit_bytes, parts, output_scheme and adapter: they are refused. */
NIBBLE_API nibble_status nibble_compare(const char* model, const char* const* recipes,
                                        size_t recipe_count, const char* text, size_t bytes,
                                        const nibble_evaluate_options* evaluate,
                                        const nibble_quantize_options* quantize, char** json);

#ifdef __cplusplus
}
#endif

#endif
