#!/usr/bin/env python3
"""Decoding speed beside Hugging Face transformers: same file, same prompts, same cores, float32, alternating runs.

usage: decode_vs_transformers.py POLICY.gguf [--batch 16] [--tokens 64] [--rounds 3] [--threads 2] [--peer VENV_DIR]

Needs cargo and Python 3. The peer is installed with pip into a virtual environment of its own (first run only).
Both sides sample at temperature 1 and go on past end-of-turn ids, so each does exactly batch x tokens of work;
prefill is included in both. Prints tokens per second of every round, the medians and their ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PACKAGES = ["torch==2.15.0", "transformers==5.24.0", "gguf==0.19.0", "accelerate", "numpy"]
TASKS = [
    "adds two numbers",
    "reverses a string",
    "returns the largest item of a list that may be empty",
    "counts the vowels of a sentence, whatever their case",
    "tells whether a number is prime",
    "merges two sorted lists into one sorted list without calling sort",
    "returns the n-th Fibonacci number",
    "removes duplicates from a list and keeps the order of first occurrence",
]


def peer_python(directory: Path) -> Path:
    python = directory / "bin" / "python"
    if not python.exists():
        print(f"installing the peer into {directory} (once)", file=sys.stderr)
        venv.create(directory, with_pip=True)
    probe = subprocess.run([python, "-c", "import torch, transformers, gguf, accelerate"], capture_output=True)
    if probe.returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def peer_main(options: argparse.Namespace) -> None:
    """Runs inside the virtual environment: one line of JSON per line read from standard input."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(options.threads)
    path = Path(options.policy)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    chats = [[{"role": "user", "content": f"Write a Python function that {task}. Reply with code only."}] for task in TASKS]
    texts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in chats]
    tokenizer.padding_side = "left"
    inputs = tokenizer([texts[i % len(texts)] for i in range(options.batch)], return_tensors="pt", padding=True)
    prompts = [ids[mask.bool()].tolist() for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"])]
    print(json.dumps({"prompts": prompts}), flush=True)
    for _ in sys.stdin:
        torch.manual_seed(0)
        start = time.perf_counter()
        with torch.no_grad():
            out = model.generate(**inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=tokenizer.eos_token_id,
                                 min_new_tokens=options.tokens, max_new_tokens=options.tokens)
        seconds = time.perf_counter() - start
        assert out.shape[1] == inputs["input_ids"].shape[1] + options.tokens
        print(json.dumps({"tokens_per_second": options.batch * options.tokens / seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peer", type=Path, default=Path(tempfile.gettempdir()) / "rehearsal-peer-transformers")
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_peer:
        peer_main(options)
        return

    root = Path(__file__).resolve().parent.parent
    build = ["cargo", "build", "--release", "-p", "rehearsal-models", "--example", "decode_speed", "--message-format=json"]
    messages = subprocess.run(build, cwd=root, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    ours = next(m["executable"] for m in map(json.loads, messages) if m.get("executable"))

    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    arguments = [options.policy, "--batch", options.batch, "--tokens", options.tokens, "--threads", options.threads]
    peer = subprocess.Popen([peer_python(options.peer), __file__, "--as-peer", *map(str, arguments)], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    prompts = json.loads(peer.stdout.readline())["prompts"]
    environment["RAYON_NUM_THREADS"] = str(options.threads)
    # As the rehearsal binary sets it for itself.
    environment["MIMALLOC_PURGE_DELAY"] = "-1"
    rates = {"rehearsal": [], "transformers": []}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(prompts, file)
        file.flush()
        command = [ours, options.policy, "--batch", options.batch, "--tokens", options.tokens, "--prompts", file.name, "--json"]
        for round_number in range(options.rounds + 1):
            line = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, text=True, env=environment).stdout
            peer.stdin.write("\n")
            peer.stdin.flush()
            found = {"rehearsal": json.loads(line), "transformers": json.loads(peer.stdout.readline())}
            for name, result in found.items():
                rate = result["tokens_per_second"]
                print(f"round {round_number} {name}: {rate:.1f} tokens/s" + (" (warm-up, not counted)" if round_number == 0 else ""))
                if round_number > 0:
                    rates[name].append(rate)
    peer.stdin.close()
    peer.wait()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = medians["rehearsal"] / medians["transformers"]
    load = os.getloadavg()[0]
    print(f"batch {options.batch}, {options.tokens} tokens, {options.threads} threads, load average {load:.1f}: "
          f"rehearsal {medians['rehearsal']:.1f} tokens/s, transformers {medians['transformers']:.1f} tokens/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
