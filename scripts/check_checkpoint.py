#!/usr/bin/env python3
"""Does `transformers` open a checkpoint, and does it see the same policy?

usage: check_checkpoint.py DIRECTORY

Run it with a Python that has torch and transformers; needs cargo. Compares, for a checkpoint directory: the token ids of awkward
texts, the rendered chat, and the log-probabilities of a completion (at most 1e-3 apart). Exits 1 on the first difference.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOLERANCE = 1e-3
ROOT = Path(__file__).resolve().parent.parent


def our_facts(directory: Path) -> dict:
    command = ["cargo", "run", "--quiet", "--release", "-p", "rehearsal-models", "--example", "checkpoint", "--"]
    done = subprocess.run([*command, "facts", directory], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def expect(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        sys.exit(f"{what} differs:\n  rehearsal    {ours!r}\n  transformers {theirs!r}")
    print(f"{what}: equal")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = Path(sys.argv[1]).resolve()
    facts = our_facts(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    model.eval()

    for text, ids in facts["texts"]:
        expect(f"ids of {text!r}", ids, tokenizer(text, add_special_tokens=False)["input_ids"])
    chat = tokenizer.apply_chat_template(facts["messages"], tokenize=False, add_generation_prompt=True)
    expect("rendered chat", facts["prompt"], chat)
    expect("ids of the chat", facts["prompt_ids"], tokenizer(chat, add_special_tokens=False)["input_ids"])

    prompt, completion = facts["prompt_ids"], facts["completion_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    theirs = torch.log_softmax(logits.double(), dim=-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
    difference = (theirs - torch.tensor(facts["logprobs"], dtype=torch.float64)).abs().max().item()
    print(f"log-probabilities: at most {difference:.2e} apart over {len(completion)} tokens")
    if not difference <= TOLERANCE:
        sys.exit(1)


if __name__ == "__main__":
    main()
