"""Writes a folder with a Llama of some 1 M random weights, a tokenizer of 600 tokens and a chat template, as vLLM and
transformers load it. It writes the same every time. It needs torch, transformers and tokenizers: run it in an engine's
environment. With another width and number of layers the model is as slow as a measurement wants it: 384 and 8 have 15 M
weights.

Usage: tiny_hf.py FOLDER [WIDTH LAYERS]"""
import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from vocabulary import CHAT_TEMPLATE, WORDS

CONTEXT = 4096
SPECIAL = ["<pad>", "<s>", "</s>"]


def tokenizer():
    chance = random.Random(1)
    text = (" ".join(chance.choices(WORDS, k=30)) for _ in range(3000))
    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bytewise.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    )
    whole = PreTrainedTokenizerFast(
        tokenizer_object=bytewise, pad_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )
    whole.chat_template = CHAT_TEMPLATE
    whole.model_max_length = CONTEXT
    return whole, len(SPECIAL) + len(alphabet)


def main():
    folder, width, layers = sys.argv[1], *(map(int, sys.argv[2:] or (128, 4)))
    words, first_word = tokenizer()
    torch.manual_seed(3)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
            num_attention_heads=width // 32, num_key_value_heads=width // 32, head_dim=32, max_position_embeddings=CONTEXT, tie_word_embeddings=False,
            pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    ).to(torch.bfloat16)
    with torch.no_grad():
        # Words are likely; parts of characters and the end of the text are not. So answers are text of the length asked
        # for.
        model.lm_head.weight.normal_(0, 1.0)
        model.lm_head.weight[:first_word] = 0
    words.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    main()
