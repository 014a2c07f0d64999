#include "cli/commands.h"

namespace nibble::cli {
namespace {

constexpr CommandEntry kCommands[] = {
    {"quantize", "Make a model smaller: 8, 4 or 3 bits by a recipe",
     "  nibble quantize models/demo -o demo-w4 --recipe rtn-w4g128\n"
     "  nibble quantize Llama-3.2-1B -o llama-w4 --recipe gptq-w4g128 --calib text.txt "
     "--samples 128",
     JsonOutput::kYes, quantize_command},
    {"convert", "Write a model for other programs: GGUF, GPTQ, AWQ, compressed-tensors, plain",
     "  nibble convert demo-w4 --to gguf -o demo-w4.gguf\n"
     "  nibble convert Llama-3.2-1B-AWQ --to gptq -o llama-gptq --json",
     JsonOutput::kYes, convert_command},
    {"pack", "Store the CPU's layout of a compressed model, so that it starts at once",
     "  nibble pack demo-w4\n"
     "  nibble pack demo-w4 -o demo-w4.nibble; nibble run demo-w4 --packed demo-w4.nibble -p "
     "\"A library is\"",
     JsonOutput::kYes, pack_command},
    {"eval", "Perplexity on a text; with a reference also KL divergence",
     "  nibble eval models/demo --text wiki.test.raw --seq-len 1024 --max-tokens 40960\n"
     "  nibble eval demo-w4 --text book.txt --reference models/demo --json",
     JsonOutput::kYes, eval_command},
    {"tasks",
     "Accuracy on zero-shot tasks, as lm-evaluation-harness computes it, on GLUE, and of texts "
     "that encoder-decoders write",
     "  nibble tasks models/demo --task piqa,arc_easy --data tests/data/tasks\n"
     "  nibble tasks models/demo --task all --data tests/data/tasks --limit 2 --json\n"
     "  nibble tasks bert-sst2 --task sst2 --data SST-2/dev.tsv\n"
     "  nibble tasks bart-g2p --seq2seq words.tsv --beams 4",
     JsonOutput::kYes, tasks_command},
    {"compare", "The damage table: what each recipe costs and gives",
     "  nibble compare models/demo --recipes f16,w8a8,rtn-w4g128,gptq-w4g128 --calib c.txt "
     "--text t.txt\n"
     "  nibble compare models/demo --recipes nf4g64,mxfp4 --text t.txt --html damage.html",
     JsonOutput::kYes, compare_command},
    {"run", "Continue a prompt, or write a text for another",
     "  nibble run demo-w4 -p \"The memory bus\" -n 64\n"
     "  echo \"Once upon a time\" | nibble run demo-w4 --temp 0 --json\n"
     "  nibble run demo-w4 -p \"The answer: \" --json-schema '{\"enum\": [\"yes\", \"no\"]}'",
     JsonOutput::kYes, run_command},
    {"chat", "Talk to a model that has a chat template",
     "  nibble chat SmolLM2-w4\n"
     "  nibble chat SmolLM2-w4 --system \"Answer in one sentence.\"\n"
     "  echo \"What is a nibble?\" | nibble chat SmolLM2-w4 -q",
     JsonOutput::kNo, chat_command},
    {"classify", "Label texts, or their tokens, with an encoder (BERT)",
     "  nibble classify bert-sst2 --texts reviews.txt\n"
     "  nibble classify bert-stsb --texts pairs.tsv --json\n"
     "  echo 'A fine film.' | nibble classify bert-sst2 --texts -",
     JsonOutput::kYes, classify_command},
    {"embed", "Embeddings of texts, as JSON or a NumPy file",
     "  nibble embed all-MiniLM-L6-v2 --texts sentences.txt > embeddings.jsonl\n"
     "  nibble embed all-MiniLM-L6-v2 --texts sentences.txt -o embeddings.npy\n"
     "  echo 'A library' | nibble embed models/demo --texts - --json",
     JsonOutput::kYes, embed_command},
    {"serve", "Serve a model over HTTP, with OpenAI's API",
     "  nibble serve SmolLM2-w4\n"
     "  nibble serve llama-w4 --port 8000 --max-batch 32 --served-model-name llama\n"
     "  NIBBLE_API_KEY=... nibble serve llama-w4 --host 0.0.0.0\n"
     "  curl localhost:8080/v1/completions -H 'Content-Type: application/json' \\\n"
     "    -d '{\"prompt\": \"A nibble is\", \"max_tokens\": 32}'",
     JsonOutput::kNo, serve_command},
    {"bench", "Tokens per second, with the share of the machine's limit",
     "  nibble bench demo-w4\n"
     "  nibble bench demo-w4 --pp 512 --tg 128 --batch 1,4,16 --threads 2 --json\n"
     "  nibble bench bert-base --shapes 1x32,8x128,64x128",
     JsonOutput::kYes, bench_command},
    {"bench-serve", "Put a server under load and measure how fast its answers come",
     "  nibble bench-serve http://127.0.0.1:8080 --requests 200 --concurrency 16\n"
     "  nibble bench-serve http://127.0.0.1:8080 --rate 4 --lengths atom --longest 1024\n"
     "  nibble bench-serve http://127.0.0.1:8080 --goodput ttft:500 --goodput tpot:50 --json",
     JsonOutput::kYes, bench_serve_command},
    {"tune", "Train a compressed model against the float one",
     "  nibble tune demo-s50 -o demo-s50-tuned --teacher models/demo --calib text.txt\n"
     "  nibble tune llama-w2 -o llama-w2-tuned --teacher Llama-3.2-1B --calib text.txt --stage "
     "e2e-oqp --csv loss.csv\n"
     "  nibble tune bert-sst2 -o bert-w4a4 --stage qat --task sst2 --data glue\n"
     "  nibble tune bart-g2p -o bart-w4a4 --stage qat --data pairs.tsv",
     JsonOutput::kNo, tune_command},
    {"tune-kernels",
     "Measure how a GPU best divides a model's linear layers, and keep that for later runs",
     "  nibble tune-kernels demo-w4 --device cuda\n"
     "  nibble tune-kernels demo-w4 --device cuda --batch 1,8,64 --check",
     JsonOutput::kYes, tune_kernels_command},
    {"tune-strategy",
     "Measure which type of numbers each part of a layer should have, and keep that for quantize",
     "  nibble tune-strategy bert-sst2 --batch 8 --seq 128 --task sst2 --data SST-2/dev.tsv\n"
     "  nibble tune-strategy models/demo --batch 1 --seq 1 --text wiki.valid.raw --max-loss 0.02\n"
     "  nibble quantize bert-sst2 -o bert-best --recipe qbest --batch 8 --seq 128",
     JsonOutput::kYes, tune_strategy_command},
    {"explain", "Which kernel computes each linear layer, and why no other does",
     "  nibble explain demo-w4\n"
     "  nibble explain demo-w4 --layer model.layers.0.mlp.down_proj --tokens 1,16,512\n"
     "  nibble explain demo-w4 --measure --json",
     JsonOutput::kYes, explain_command},
    {"inspect", "What is inside a model: sizes, layers, schemes, statistics",
     "  nibble inspect models/demo\n"
     "  nibble inspect demo-w4 model.layers.0.mlp.down_proj\n"
     "  nibble inspect demo-w4 --html demo.html\n"
     "  nibble inspect demo-w4 --layer model.layers.0.mlp.down_proj --text t.txt --html "
     "l.html",
     JsonOutput::kYes, inspect_command},
    {"analyze", "Loss and activations by position, and noise by layer, float beside quantized",
     "  nibble analyze models/demo demo-w4 --text book.txt --seq-len 256\n"
     "  nibble analyze models/demo demo-w4 --text book.txt --html analysis.html\n"
     "  nibble analyze bert-sst2 --text reviews.txt --json",
     JsonOutput::kYes, analyze_command},
    {"pull", "Fetch a model from the Hugging Face hub into its cache",
     "  nibble pull HuggingFaceTB/SmolLM2-135M\n"
     "  nibble quantize hf:HuggingFaceTB/SmolLM2-135M -o smol-w4 --recipe rtn-w4g128\n"
     "  nibble pull ORG/NAME --file model-Q4_0.gguf --revision refs/pr/1",
     JsonOutput::kYes, pull_command},
    {"manual", "Write the manual's pages, and completions for bash, zsh and fish",
     "  nibble manual -o manual; man manual/man/nibble.1\n"
     "  source <(nibble manual --shell bash)",
     JsonOutput::kNo, manual_command},
};

}  // namespace

std::span<const CommandEntry> commands() {
  return kCommands;
}

}  // namespace nibble::cli
