"""Writes a GGUF with a Llama of some 5 M random weights, a vocabulary of bytes and words, and a chat template, as llama.cpp
loads it. It writes the same every time. It needs gguf and numpy.

Usage: tiny_gguf.py FILE"""
import sys

import gguf
import numpy

from vocabulary import CHAT_TEMPLATE, WORDS

WIDTH, LAYERS, HEADS, FORWARD, CONTEXT = 256, 6, 8, 704, 4096
SINGLE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?:;'\"-_{}[]\u2581"


def vocabulary():
    """Returns (text, kind, score) of each token. One that begins with a blank is a word; a low score is a last resort."""
    kind = gguf.TokenType
    yield from ((text, kind.CONTROL, 0.0) for text in ("<unk>", "<s>", "</s>"))
    yield from ((f"<0x{byte:02X}>", kind.BYTE, 0.0) for byte in range(256))
    yield from ((f"\u2581{word}", kind.NORMAL, -float(rank)) for rank, word in enumerate(dict.fromkeys(WORDS)))
    yield from ((letter, kind.NORMAL, -1000.0) for letter in SINGLE)


def main():
    chance = numpy.random.default_rng(7)

    def weights(*shape, spread=0.05):
        return (chance.standard_normal(shape) * spread).astype(numpy.float32)

    texts, kinds, scores = zip(*vocabulary())
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(texts))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text in texts])
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)
    writer.add_tensor("token_embd.weight", weights(len(texts), WIDTH))
    writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, numpy.float32))
    output = weights(len(texts), WIDTH, spread=1.0)
    output[:259] = 0  # Parts of characters and the end of the text are never chosen, so answers are text of the length
                      # asked for.
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{name}{norm}.weight", numpy.ones(WIDTH, numpy.float32))
        for square in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{name}{square}.weight", weights(WIDTH, WIDTH))
        for wide in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"{name}{wide}.weight", weights(FORWARD, WIDTH))
        writer.add_tensor(f"{name}ffn_down.weight", weights(WIDTH, FORWARD))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
